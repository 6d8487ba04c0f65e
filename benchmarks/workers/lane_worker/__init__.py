"""Records small steps at a rate, for the benchmark of the telemetry lane."""
