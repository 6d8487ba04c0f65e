"""What a training script talks to: its session, its arguments, its environments."""
