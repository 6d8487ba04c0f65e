"""An example worker: skrl under MOSAIC, with a loop of its own. See docs/how-to/add-a-worker.md."""
