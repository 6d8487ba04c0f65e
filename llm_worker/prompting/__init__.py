"""What a model is asked, in which form it may answer, and what its answer means."""
