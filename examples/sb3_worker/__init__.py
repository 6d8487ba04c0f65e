"""An example worker: Stable-Baselines3 under MOSAIC. See docs/how-to/add-a-worker.md."""
