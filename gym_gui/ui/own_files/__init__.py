"""Files that a worker reads and a person may change: chosen, edited, checked by the worker, saved as copies."""
