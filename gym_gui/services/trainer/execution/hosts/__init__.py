"""Runs on other machines: the way to a host, the executor behind it, files that come home, and which host has what."""
