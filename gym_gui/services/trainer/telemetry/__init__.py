"""What workers say: taken in, stored exactly once, served to those who watch."""
