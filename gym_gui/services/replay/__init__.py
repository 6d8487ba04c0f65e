"""Recorded episodes for a screen: read, opened in a process that simulates them again, named in words. Needs no Qt."""
