"""Asking a model over HTTP: attempts, answers, what they cost, and a ledger of every call."""
