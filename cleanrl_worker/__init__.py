"""Trains with single-file reinforcement-learning scripts: MOSAIC's own and upstream CleanRL's."""
