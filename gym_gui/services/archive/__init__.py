"""Runs as files: packed on one machine, unpacked on another, nothing believed in between."""
