"""The standings as an object for programs, as rows for a spreadsheet, and as words."""

from __future__ import annotations

import csv
import io
from typing import Any

from gym_gui.services.arena.standings import Cost, Standing, Standings
from gym_gui.services.compare.report import interval
from gym_gui.services.compare.statistics import CONFIDENCE, Estimate

COSTS = ("seconds", "cpu_seconds", "tokens", "money")
COLUMNS = ("entry", "seed", "return", "steps", "outcome", "verified", *COSTS)
MISSING = "–"


def as_object(found: Standings) -> dict[str, Any]:
    arena = found.arena
    return {
        "name": arena.name,
        "env_id": arena.env_id,
        "env_kwargs": dict(arena.env_kwargs),
        "rules": dict(arena.rules),
        "seeds": list(arena.seeds),
        "created": arena.created,
        "complete": found.is_complete,
        "measure": str(found.measure),
        "confidence": CONFIDENCE,
        "samples": found.samples,
        "entries": [_entry(one, found) for one in found.standings],
        "improvements": [
            {"better": one, "worse": other, **_estimate(chance)} for (one, other), chance in found.improvements.items()
        ],
        "notes": list(found.notes),
    }


def _entry(one: Standing, found: Standings) -> dict[str, Any]:
    return {
        "entry": one.entry.key,
        "label": one.entry.label,
        "kind": str(one.entry.kind),
        "detail": one.entry.detail,
        "source": dict(one.entry.source),
        "problem": one.entry.problem or None,
        "played": len(one.played.results),
        "verified": one.played.verified,
        "missing": one.played.missing(found.arena.seeds),
        "estimates": {name: _estimate(estimate) for name, estimate in one.estimates.items()},
        "mean_steps": one.mean_steps,
        "cost_per_episode": {name: getattr(one.cost, name) for name in COSTS},
        "episodes": [
            {
                "seed": result.seed,
                "return": result.total,
                "steps": result.length,
                "outcome": result.outcome,
                "verified": result.verdict is not None and result.verdict.is_good,
                "recording": str(result.recording),
                "episode": result.episode,
                "actors": dict(result.actors),
            }
            for result in one.played.results.values()
        ],
    }


def _estimate(one: Estimate) -> dict[str, float | None]:
    return {"value": one.value, "low": one.low, "high": one.high}


def csv_text(found: Standings) -> str:
    """Every episode, in the order of :data:`COLUMNS`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.standings:
        for seed in found.arena.seeds:
            if (result := one.played.results.get(seed)) is None:
                continue
            verified = result.verdict is not None and result.verdict.is_good
            spent = [result.spent.get(name, "") for name in COSTS]
            writer.writerow([one.entry.label, seed, result.total, result.length, result.outcome, verified, *spent])
    return text.getvalue()


# ---- words -------------------------------------------------------------------------------------------------------


def shown_estimate(one: Standing, name: str = "iqm") -> str:
    found = one.estimates.get(name)
    return interval(found) if found is not None else MISSING


def shown_seconds(seconds: float | None) -> str:
    if seconds is None:
        return MISSING
    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def shown_price(cost: Cost, *, is_person: bool = False) -> str:
    """What an episode costs besides time."""
    if is_person:
        return "a person's time"
    tokens = f"{cost.tokens:,.0f} tokens" if cost.tokens is not None else ""
    money = f"${cost.money:.4f}".rstrip("0").rstrip(".") if cost.money else ""
    return ", ".join(part for part in (money, tokens) if part) or "free"


def finding(found: Standings) -> str:
    """Who is ahead, and whether that is certain."""
    ranked = [one for one in found.standings if one.estimates]
    if not ranked:
        return "Nothing was played yet."
    first = ranked[0]
    said = f"{first.entry.label} has the best IQM: {shown_estimate(first)}."
    if len(ranked) == 1:
        return said
    second = ranked[1]
    chance = found.improvements.get((first.entry.key, second.entry.key))
    said += f" {second.entry.label} follows with {shown_estimate(second)}; "
    if chance is None:
        return f"{said}they share no seed."
    said += (
        f"on the same seed {first.entry.label} does better with probability {interval(chance)}, a draw counting half."
    )
    if chance.low is None or chance.low <= 0.5:
        return f"{said} These seeds do not settle which of the two is better."
    return said
