"""Sets of extra packages that some algorithms or environments of a worker need: described, installed, recorded."""
