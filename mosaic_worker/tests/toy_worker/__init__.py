"""The smallest worker that uses the kit: for its tests, and to be read."""
