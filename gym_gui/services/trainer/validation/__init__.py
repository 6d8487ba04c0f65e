"""Checks of what clients submit, before it becomes a run."""
