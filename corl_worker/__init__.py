"""The CORL worker: offline reinforcement learning, single-file algorithms that learn from datasets."""
