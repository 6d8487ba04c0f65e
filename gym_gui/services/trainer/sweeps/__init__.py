"""Sweeps: decided purely, kept in the registry, searched by Optuna in a thread, made of ordinary runs."""
