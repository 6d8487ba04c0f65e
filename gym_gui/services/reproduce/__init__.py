"""Starting a run again as it was, and judging whether the same came of it."""
