"""Environments in words."""
