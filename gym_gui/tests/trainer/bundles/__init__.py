"""Managed environments."""
