"""Tools that a person runs by hand."""
