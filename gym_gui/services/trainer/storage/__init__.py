"""What survives a crash: the registry, the machinery of durable writes, private files, logs."""
