"""What hosts are labelled with, and what a run may ask of the one that it goes to."""

from __future__ import annotations

HOST_LABEL = r"^[a-z0-9][a-z0-9_.-]{0,31}$"
MAX_HOST_LABELS = 16
GPU = "gpu"
"""The label that every host with a GPU has without being given it."""
