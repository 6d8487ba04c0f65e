"""Trains with single-file reinforcement-learning scripts: our own and upstream CleanRL's."""
