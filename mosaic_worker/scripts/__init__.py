"""Training scripts read as source: which flags they have and what they would refuse."""
