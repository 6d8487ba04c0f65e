"""Sweeps in the cockpit: which there are, one on the stage with its trials and charts, and what can be done to it."""
