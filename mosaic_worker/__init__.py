"""The kit for workers: what any training process needs and no algorithm should have to write."""
