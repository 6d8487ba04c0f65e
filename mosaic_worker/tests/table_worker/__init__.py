"""A worker that learns a table with numpy alone, as one does in whose environment there is no PyTorch: for tests of the
kit, and to be read."""
