"""What any part of the kit may raise. Imports nothing, so that a check can be made without PyTorch."""

from __future__ import annotations


class UsageError(ValueError):
    """What was asked of a worker or a script cannot be done; the message is one sentence for the person who asked."""

    excerpt: tuple[str, ...] = ()
    """Lines to show below the sentence, such as the one with the mistake and a caret under it."""
