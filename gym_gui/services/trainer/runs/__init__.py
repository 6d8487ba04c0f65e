"""From an accepted run to its outcome: deciding, queueing, watching, ending, deleting."""
