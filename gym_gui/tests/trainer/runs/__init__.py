"""The trainer's decisions about runs."""
