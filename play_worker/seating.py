"""Who takes which seat when a session begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mosaic_protocol.live.messages import HandOver
from mosaic_worker.errors import UsageError
from play_worker.actors import read_script

MOST_SEATS = 8
_SPELLING = "human, random, policy:CHECKPOINT or scripted:FILE"


def first_wishes(params: Mapping[str, Any]) -> list[HandOver]:
    """Who is to take each seat first; most sessions have one. Raises UsageError for an actor without what it needs."""
    deterministic = bool(params.get("deterministic", True))
    if seats := str(params.get("seats") or ""):
        wishes = [_spelt(one.strip(), deterministic) for one in seats.split(",")]
        if len(wishes) > MOST_SEATS:
            raise UsageError(f"--seats names {len(wishes)}: a session has {MOST_SEATS} at most")
        return wishes
    actor = params.get("actor", "human")
    return [_wish(actor, str(params.get("checkpoint") or ""), str(params.get("script") or ""), deterministic)]


def names_of(count: int) -> list[str]:
    """The ``agent_id`` of the steps of each seat."""
    return [f"seat-{number}" for number in range(1, count + 1)] if count > 1 else [""]


def _spelt(text: str, deterministic: bool) -> HandOver:
    actor, _, what = text.partition(":")
    if actor in ("human", "random") and not what:
        return _wish(actor, "", "", deterministic)
    if actor == "policy" and what:
        return _wish(actor, what, "", deterministic)
    if actor == "scripted" and what:
        return _wish(actor, "", what, deterministic)
    raise UsageError(f"--seats: {text!r} is nobody who takes a seat: name {_SPELLING}, with commas between them")


def _wish(actor: Any, checkpoint: str, script: str, deterministic: bool) -> HandOver:
    if actor == "policy" and not checkpoint:
        raise UsageError("--checkpoint is missing: a policy needs one")
    if actor == "scripted":
        if not script:
            raise UsageError("--script is missing: a scripted actor needs a file of actions")
        read_script(script)
    return HandOver(actor, checkpoint=checkpoint, script=script, deterministic=deterministic)
