"""What runs take of the disk, how long it is kept, and what to do when it is too much."""
