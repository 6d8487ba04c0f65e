"""Other machines that runs may go to: which there are, how they are reached, and the code that they are given."""
