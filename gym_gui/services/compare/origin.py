"""Where a comparison comes from: code, versions and hardware of its runs, what they were set to, a hash of the data."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from gym_gui.services.compare.comparison import Comparison
from gym_gui.services.run_diff import Row, RunDiff, diff_of
from mosaic_protocol.provenance import commit_of

_SECTIONS = ("run", "settings", "code", "environment")
_UNSAID = {("environment", "host"), ("code", "script"), ("run", "notes")}
"""A report is mailed to others: neither names of machines and folders nor what somebody noted for themselves."""
_FACTS = {
    "code": ("script commit", "script sha256", "uncommitted changes", "worker commit", "worker version", "mosaic"),
    "environment": ("system", "cpus", "cpu model", "threads", "gpus", "python"),
}
_PACKAGES = ("torch", "numpy", "gymnasium", "jax", "ale-py", "mujoco")
_MOST_VALUES = 6


@dataclass(frozen=True)
class Difference:
    """One thing in which runs differ, with what each group has there."""

    section: str
    name: str
    values: Sequence[str]


@dataclass(frozen=True)
class Origin:
    """``facts`` are of the runs, ``made_by`` of the program that compared them."""

    differences: Sequence[Difference]
    equal: int
    facts: Sequence[tuple[str, str]]
    made_by: Sequence[tuple[str, str]]
    data_hash: str


def origin_of(found: Comparison) -> Origin:
    """Reads the manifests of the runs: not for a thread that must not wait."""
    runs = [one.run for group in found.groups for one in group.runs]
    diff = diff_of(runs)
    return Origin(list(_differences(found, diff)), _equal(diff), list(_facts(diff)), made_by(), data_hash(found))


def data_hash(found: Comparison) -> str:
    """SHA-256 over every run that counts: group, id, score, and the points of its curve. Equal for equal data, in
    whatever order groups and runs were found."""
    whole = hashlib.sha256(json.dumps([str(found.by), found.at]).encode())
    members = [(group.label, one.run.run_id, one) for group in found.groups for one in group.runs]
    for label, run_id, one in sorted(members, key=lambda three: three[:2]):
        whole.update(json.dumps([label, run_id, repr(one.score)]).encode())
        if one.curve is not None:
            whole.update(np.stack([one.curve.steps, one.curve.values]).astype("<f8").tobytes())
    return whole.hexdigest()


def made_by() -> list[tuple[str, str]]:
    try:
        product = version("mosaic-rl")
    except PackageNotFoundError:
        product = "unknown"
    commit = commit_of(Path(__file__).parent)
    return [
        ("MOSAIC", f"{product}, commit {commit[:12]}" if commit else product),
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
    ]


def _differences(found: Comparison, diff: RunDiff) -> Iterable[Difference]:
    sizes = [len(group.runs) for group in found.groups]
    for row in diff.shown():
        if row.section in _SECTIONS and (row.section, row.name) not in _UNSAID:
            begin, cells = 0, []
            for size in sizes:
                cells.append(_together([value.shown for value in row.values[begin : begin + size]]))
                begin += size
            yield Difference(row.section, row.name, cells)


def _equal(diff: RunDiff) -> int:
    return sum(row.is_equal for row in diff.rows if row.section in _SECTIONS)


def _facts(diff: RunDiff) -> Iterable[tuple[str, str]]:
    hosts = {value.text for row in diff.rows if row.name == "host" for value in row.values if value.raw is not None}
    if hosts:
        yield "machines", str(len(hosts))
    for row in diff.rows:
        if row.name in _FACTS.get(row.section, ()) or _is_package(row):
            yield row.name, _together([value.text for value in row.values])


def _is_package(row: Row) -> bool:
    return row.section == "environment" and row.name.removeprefix("package ") in _PACKAGES


def _together(texts: Sequence[str]) -> str:
    """What several runs have, each value once, with how many have it where that differs."""
    counts = Counter(texts)
    shown = [f"{text} (×{times})" if 1 < times < len(texts) else text for text, times in counts.items()]
    left = len(shown) - _MOST_VALUES
    return ", ".join([*shown[:_MOST_VALUES], f"… {left} more"] if left > 0 else shown)
