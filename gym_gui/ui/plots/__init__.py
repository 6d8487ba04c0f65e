"""Curves of runs. The data side (buffers, decimation, smoothing, seeds, export) is free of Qt and of threads."""
