"""Pages about the algorithms, one HTML fragment each, in a folder named after the worker that runs them."""
