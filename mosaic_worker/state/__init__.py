"""What a run needs to go on as if it had never stopped: checkpoints and what is in them."""
