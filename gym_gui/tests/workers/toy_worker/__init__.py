"""A worker for tests: small, quick, and able to misbehave in every way a real one might."""
