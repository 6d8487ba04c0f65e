"""The daemon as a whole, and what it is made of."""
