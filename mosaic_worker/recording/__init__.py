"""Short clips of an environment while it trains."""
