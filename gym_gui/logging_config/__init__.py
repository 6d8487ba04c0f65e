"""Log codes and the structured log."""
