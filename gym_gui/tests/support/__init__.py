"""Real daemons, real workers and a checker of histories, for the trainer's tests."""
