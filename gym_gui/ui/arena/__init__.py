"""The Arena screen: players of all kinds on the same seeds."""
