"""The dataset manager: datasets listed, looked into, verified, made, handed on and removed."""
