"""The cockpit, the only part of MOSAIC that knows Qt. It talks to the trainer daemon and never trains itself."""
