"""The mind of an agent on a screen: beliefs, intentions, choices, and what it learned. Live and replayed alike."""
