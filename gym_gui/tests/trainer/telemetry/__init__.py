"""What workers say: taken in, stored, served."""
