"""What a person fills in to make a dataset, and the words of the command that makes it. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KINDS = ("import", "from-run", "collect", "download", "merge", "split")
MEASURED_EPISODES = 100
"""So many are played for each reference, as on the command line."""


def words_of(kind: str, values: Mapping[str, Any]) -> list[str]:
    """``mosaic datasets WORDS`` for what was filled in; values are of their types, None where nothing stands."""
    name = str(values.get("name") or "").strip()
    match kind:
        case "import":
            return ["import", *_file_flags(values), "--", _text(values, "file"), name]
        case "download":
            given = ["--sha256", _text(values, "sha256")] if _text(values, "sha256") else []
            return ["download", *given, *_file_flags(values), "--", _text(values, "address"), name]
        case "from-run":
            only = ["--only", _text(values, "only")] if _text(values, "only") else []
            buffer = ["--buffer"] if values.get("buffer") else []
            return ["from-run", *only, *buffer, "--", _text(values, "run"), name]
        case "merge":
            return ["merge", "--into", name, "--", *(values.get("names") or ())]
        case "split":
            shares = ["--fractions", _text(values, "fractions").replace(" ", "")]
            return ["split", *shares, *_numbers(values, "seed"), "--", _text(values, "dataset")]
    words = ["collect"]
    for checkpoint in _text(values, "checkpoints").split(","):
        words += ["--from", checkpoint.strip()] if checkpoint.strip() else []
    words += ["--mix", _text(values, "mix").replace(" ", "")] if _text(values, "mix") else []
    words += _numbers(values, "steps", "seed")
    return [*words, *(["--deterministic"] if values.get("deterministic") else []), "--", name]


def reference_words(dataset: str, values: Mapping[str, Any]) -> list[str]:
    """``mosaic datasets WORDS`` for what counts as 0 and as 100 on a dataset."""
    return ["references", "--from", _text(values, "checkpoint"), *_numbers(values, "episodes"), "--", dataset]


def _numbers(values: Mapping[str, Any], *flags: str) -> list[str]:
    given = [flag for flag in flags if values.get(flag) is not None]
    return [word for flag in given for word in (f"--{flag}", str(values[flag]))]


def _file_flags(values: Mapping[str, Any]) -> list[str]:
    found = ["--env-id", _text(values, "env_id")] if _text(values, "env_id") else []
    limit = values.get("max_episode_steps")
    found += ["--max-episode-steps", str(limit)] if limit is not None else []
    return [*found, "--clip-actions"] if values.get("clip_actions") else found


def _text(values: Mapping[str, Any], name: str) -> str:
    return str(values.get(name) or "").strip()
