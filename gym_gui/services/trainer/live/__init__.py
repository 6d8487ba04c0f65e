"""The live channel of sessions for those who reach the daemon and nothing else of its machine."""
