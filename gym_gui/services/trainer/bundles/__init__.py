"""Requirement bundles and the managed environments built from them."""
