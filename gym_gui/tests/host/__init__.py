"""Workers on one machine: the executor's contract, and each implementation of it."""
