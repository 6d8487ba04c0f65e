"""What goes wrong with arenas: the message is one sentence for the person who asked."""

from __future__ import annotations


class ArenaError(ValueError):
    """Something that was asked of an arena cannot be done."""


class ArenaBusyError(ArenaError):
    """Another process plays in it."""
