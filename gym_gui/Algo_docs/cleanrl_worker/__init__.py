"""Pages about the algorithms of the CleanRL worker; each is named after its script."""
