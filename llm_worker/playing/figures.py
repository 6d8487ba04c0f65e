"""The numbers of an episode, for curves and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llm_worker.client.caller import Answer
from mosaic_protocol.dialogue import Exchange


class EpisodeFigures:
    """Gathers steps; plain data, for checkpoints."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        zeros = ("asked", "valid", "calls", "attempts", "tokens_in", "tokens_out", "cached", "cost", "free", "person")
        self.kept = {**dict.fromkeys(zeros, 0.0), "seconds": [], "best": 0.0, "knows_cost": True}

    def note(self, told: Exchange, progression: float | None) -> None:
        kept = self.kept
        if told.validity == "person":
            kept["person"] += 1
        elif told.validity != "planned":
            kept["asked"] += 1
            kept["valid"] += told.validity == "valid"
            kept["free"] += told.source in ("cache", "ledger")
            kept["calls"] += told.calls
            kept["attempts"] += told.attempts
            self._add(told.tokens_in, told.tokens_out, told.cached_tokens, told.cost)
            kept["seconds"].append(told.seconds)
        if progression is not None:
            kept["best"] = max(kept["best"], progression)

    def note_call(self, answer: Answer) -> None:
        """A call that chose no action."""
        usage = answer.reply.usage
        self.kept["calls"] += answer.source == "server"
        self.kept["attempts"] += answer.attempts
        self._add(usage.prompt, usage.completion, usage.cached, answer.cost)

    def _add(self, asked: int, answered: int, cached: int | None, cost: float | None) -> None:
        kept = self.kept
        kept["tokens_in"] += asked
        kept["tokens_out"] += answered
        kept["cached"] += cached or 0
        kept["cost"] += cost or 0.0
        kept["knows_cost"] = kept["knows_cost"] and cost is not None

    def row(self, *, success: bool) -> dict[str, float]:
        kept = self.kept
        asked = max(kept["asked"], 1)
        found = {
            "llm/success": float(success),
            "llm/progression": 1.0 if success else kept["best"],
            "llm/valid_rate": kept["valid"] / asked,
            "llm/calls": kept["calls"],
            "llm/attempts": kept["attempts"],
            "llm/tokens_in": kept["tokens_in"],
            "llm/tokens_out": kept["tokens_out"],
            "llm/cached_tokens": kept["cached"],
            "llm/cache_hit_rate": kept["free"] / asked,
            "llm/latency_p50": percentile(kept["seconds"], 50),
            "llm/latency_p95": percentile(kept["seconds"], 95),
            "llm/person_steps": kept["person"],
        }
        return found | ({"llm/cost": kept["cost"]} if kept["knows_cost"] else {})


def percentile(values: Sequence[float], part: float) -> float:
    return float(np.percentile(values, part)) if values else 0.0
