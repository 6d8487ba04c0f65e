"""What the trainer daemon, its clients and its workers must agree on, and nothing else."""
