"""A dataset in words, for every screen: where it came from, who acted, what its scores mean. Needs neither NumPy nor
h5py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_gui.services.run_words import counted, quantity
from mosaic_protocol.datasets import DatasetEntry, Integrity, References
from mosaic_protocol.plain_text import one_line

BADGE_COLOURS = {
    Integrity.VERIFIED: "good",
    Integrity.UNVERIFIED: "warning",
    Integrity.CORRUPT: "bad",
    Integrity.ABSENT: "idle",
}
BADGE_MEANINGS = {
    Integrity.VERIFIED: "every byte was hashed since the file last changed, and matches",
    Integrity.UNVERIFIED: "nobody has hashed the data yet",
    Integrity.CORRUPT: "the data is not what was written",
    Integrity.ABSENT: "the data is gone; only its description is there",
}
MISSING = "–"


def why_not_usable(name: str, entry: DatasetEntry | None) -> str:
    """Why a run cannot learn from it as it is, and what to do; "" for one that is verified."""
    if entry is None:
        return f"There is no dataset {name!r}: choose one, or make one first."
    match entry.badge:
        case Integrity.VERIFIED:
            return ""
        case Integrity.UNVERIFIED:
            return f"{name} was not verified since it was written: press Verify, and every byte is hashed."
        case Integrity.ABSENT:
            return f"The data of {name} is gone: make, import or download it again."
    why = f" ({one_line(entry.problem)})" if entry.problem else ""
    return f"{name} is corrupt{why}: make, import or download it again."


def provenance(entry: DatasetEntry) -> str:
    """Where it came from, in a few words."""
    if entry.found is None:
        return one_line(entry.problem)
    source = entry.found.source
    match source.get("kind"):
        case "run" | "evaluation":
            return _of("run" if source.get("kind") == "run" else "evaluation of", source, "run_name", "run_id")
        case "replay_buffer":
            return _of("replay buffer of", source, "run_name", "run_id")
        case "file":
            return _of("file", source, "file")
        case "download":
            return _of("download", source, "url", "file")
        case "collection":
            mix = ", ".join(f"{name} {share:.0%}" for name, share in entry.found.policy_mix.items())
            return f"collected: {mix}" if mix else "collected"
        case "merge" | "split" as kind:
            of = source.get("of")
            parts = of if isinstance(of, list) else [of]
            names = ", ".join(str(part.get("name")) for part in parts if isinstance(part, Mapping))
            return one_line(f"{kind} of {names}" if names else str(kind))
    return MISSING


def _of(word: str, source: Mapping[str, Any], *keys: str) -> str:
    found = next((str(source[key]) for key in keys if source.get(key)), "")
    return one_line(f"{word} {found}".strip())


def references_line(found: References | None) -> str:
    """What counts as 0 and as 100, and who says so."""
    if found is None:
        return "no references yet"
    over = f" over {counted(found.episodes, 'episode')}" if found.episodes else ""
    whose = f"measured here{over}" if found.whose == "mosaic" else "D4RL's"
    return f"random {quantity(found.random)}, expert {quantity(found.expert)} ({whose})"


def spread(values: Mapping[str, float | None]) -> str:
    """Mean, range and quartiles in a line."""
    line = f"mean {number(values.get('mean'))}, {number(values.get('min'))} to {number(values.get('max'))}"
    if values.get("p50") is None:
        return line
    return f"{line}; quartiles {' · '.join(number(values.get(name)) for name in ('p25', 'p50', 'p75'))}"


def actors(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{one_line(actor or 'unknown actor')} {count:,}" for actor, count in counts.items())


def number(value: float | None) -> str:
    return MISSING if value is None else quantity(value)
