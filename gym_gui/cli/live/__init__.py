"""A live session in a terminal: keys in, pictures out."""
