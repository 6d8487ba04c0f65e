"""What differs between runs: settings, code, environment, results. The same for the command line and the cockpit.

Settings come from the config and, where the worker wrote down what its script took, from the run's manifest, so that a
default and the same value given by hand are equal. Code and environment are as they were when the run started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.run_labels import Scalar, config_of, flat_settings
from gym_gui.services.run_words import MISSING, duration, quantity, short_id, state_word
from gym_gui.services.setting_defaults import setting_defaults
from mosaic_protocol.headline import LENGTH_TAG, MEAN_RETURN, RETURN_TAG, SPS_TAG
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.run_manifest import read_manifest

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

MOST_RUNS = 20
SECTIONS = ("run", "settings", "code", "environment", "results")
_LONGEST_TEXT = 500
_SHORT = 8
_DIGEST = 12


@dataclass(frozen=True)
class Value:
    """What one run has there: ``raw`` for programs (None for nothing), ``text`` for people."""

    raw: Any = None
    text: str = MISSING
    is_default: bool = False

    @property
    def shown(self) -> str:
        return f"{self.text} (default)" if self.is_default else self.text


@dataclass(frozen=True)
class Row:
    """One thing, with what each run has there."""

    section: str
    name: str
    values: tuple[Value, ...]
    default: Value | None = None
    """What a setting is where nobody gives it, as far as that is known."""

    def is_changed(self, value: Value) -> bool:
        """Whether a run has something there that it was given and that is not the default."""
        if value.raw is None or value.is_default:
            return False
        return self.default is None or not _same(self.default.raw, value.raw)

    @property
    def is_equal(self) -> bool:
        first = self.values[0].raw
        return all(_same(first, value.raw) for value in self.values[1:])

    def short_texts(self) -> list[str]:
        """For narrow columns: numbers in four digits, except where two that differ would look alike."""
        short = [
            f"{one.raw:.4g}" if isinstance(one.raw, float) and len(one.text) > _SHORT else one.text
            for one in self.values
        ]
        alike = len(set(short)) < len({one.text for one in self.values})
        return [one.text for one in self.values] if alike else short


@dataclass(frozen=True)
class RunDiff:
    """Everything that was compared, in the order in which people look at it."""

    runs: tuple[pb.Run, ...]
    rows: tuple[Row, ...]

    def shown(self, *, everything: bool = False) -> list[Row]:
        """What differs; with ``everything`` also what is equal."""
        return [row for row in self.rows if everything or not row.is_equal]

    @property
    def equal(self) -> int:
        return sum(row.is_equal for row in self.rows)


def diff_of(runs: Sequence[pb.Run]) -> RunDiff:
    """Compare runs of this machine. Reads their manifests: not for a thread that must not wait."""
    return compared(runs, [read_manifest(RunPaths(Path(run.run_dir))) if run.run_dir else {} for run in runs])


def compared(runs: Sequence[pb.Run], manifests: Sequence[Mapping[str, Any]]) -> RunDiff:
    sides = [_Side.of(run, manifest) for run, manifest in zip(runs, manifests, strict=True)]
    rows = [row for section in SECTIONS for row in _rows(section, sides)]
    return RunDiff(tuple(runs), tuple(rows))


def as_object(diff: RunDiff, *, everything: bool = False) -> dict[str, Any]:
    """For programs: values in the order of the runs, null for what a run does not have."""
    return {
        "runs": [{"run_id": run.run_id, "short_id": short_id(run.run_id), "name": run.name} for run in diff.runs],
        "rows": [
            {
                "section": row.section,
                "name": row.name,
                "equal": row.is_equal,
                "values": [value.raw for value in row.values],
                "defaults": [value.is_default for value in row.values],
            }
            for row in diff.shown(everything=everything)
        ],
        "equal": diff.equal,
    }


def as_table(runs: Sequence[pb.Run], rows: Iterable[Row]) -> str:
    """Lines with tabs between cells, as spreadsheets take them from the clipboard."""
    lines = [["", "", "default", *(f"{run.name} ({short_id(run.run_id)})" for run in runs)]]
    lines += [
        [row.section, row.name, row.default.text if row.default else "", *(value.text for value in row.values)]
        for row in rows
    ]
    return "\n".join("\t".join(cell.replace("\t", " ") for cell in line) for line in lines) + "\n"


# ---- one side ----------------------------------------------------------------------------------------------------

_Values = dict[str, Value]


@dataclass(frozen=True)
class _Side:
    """What is known of one run, by section and name."""

    sections: Mapping[str, _Values]
    defaults: _Values

    @classmethod
    def of(cls, run: pb.Run, manifest: Mapping[str, Any]) -> _Side:
        config = config_of(run.config_json)
        found = {
            "run": _of_run(run, config),
            "settings": _settings(flat_settings(config), manifest),
            "code": _code(manifest),
            "environment": _environment(manifest),
            "results": _results(run, manifest),
        }
        return cls(found, _defaults(run.worker_type, manifest))


def _of_run(run: pb.Run, config: Mapping[str, Any]) -> _Values:
    asked, limits = _part(config, "resources"), _part(config, "schedule")
    return _told(
        {
            "worker": run.worker_type,
            "agent": run.agent_id,
            "group": run.group,
            "sweep": run.sweep,
            "preset": _part(config, "metadata").get("preset"),
            "tags": ", ".join(run.tags),
            "goes on from": short_id(run.parent) if run.parent else "",
            "checkpoint": _part(config, "metadata", "parent").get("checkpoint"),
            "reproduces": _short_label(_part(config, "metadata").get("reproduces")),
            "cpus": _part(asked, "cpus").get("requested"),
            "gpus": _part(asked, "gpus").get("requested"),
            "memory_mb": _part(asked, "memory_mb").get("requested"),
            "max_wallclock_minutes": limits.get("max_wallclock_minutes"),
            "max_stall_minutes": limits.get("max_stall_minutes"),
            "notes": _part(config, "metadata").get("notes"),
        }
    )


def _short_label(run_id: object) -> str:
    return short_id(run_id) if isinstance(run_id, str) else ""


def _settings(given: Mapping[str, Scalar], manifest: Mapping[str, Any]) -> _Values:
    """What the run was given, and below that what its script takes by default."""
    named = {one_line(str(name)): value for name, value in _part(manifest, "resolved").items()}
    resolved = {name: value for name, value in named.items() if value is not None}
    defaults = {name: _plain(value) for name, value in resolved.items() if name not in given}
    values = {name: Value(value, _text(value)) for name, value in given.items()}
    return values | {name: Value(value, _text(value), is_default=True) for name, value in defaults.items()}


def _defaults(worker_type: str, manifest: Mapping[str, Any]) -> _Values:
    """What the worker wrote down of its script; else what the schema of the worker says."""
    recorded = _part(manifest, "defaults")
    known = _told(recorded) if recorded else {}
    schema = {name: Value(value, _text(value)) for name, value in setting_defaults(worker_type).items()}
    return schema | known


def _code(manifest: Mapping[str, Any]) -> _Values:
    script, worker = _part(manifest, "code"), _part(manifest, "worker_code")
    bundle, around = _part(manifest, "script_requirements") or _part(manifest, "requirements"), "environment"
    return _told(
        {
            "script": script.get("path"),
            "script sha256": _digest(script.get("sha256")),
            "script commit": _digest(script.get("commit")),
            "uncommitted changes": changes_text(manifest),
            "worker sha256": _digest(worker.get("sha256")),
            "worker commit": _digest(worker.get("commit")),
            "worker version": _part(manifest, around).get("worker_version"),
            "mosaic": _part(manifest, around).get("mosaic"),
            "bundle": bundle.get("name"),
            "bundle hash": _digest(bundle.get("hash")),
            "extras": ", ".join(sorted(map(str, _part(manifest, "extras")))),
        }
    )


def changes_text(manifest: Mapping[str, Any]) -> str:
    """What was not committed in the repository of the code, in a few words; "" where nobody looked."""
    changes = _part(manifest, "code_changes")
    digest, files = _digest(changes.get("sha256")), changes.get("files")
    if digest is None or not isinstance(files, int):
        return ""
    more = ", cut" if changes.get("cut") is True else ""
    return f"{files} {'file' if files == 1 else 'files'} ({digest}{more})" if files else "none"


def _environment(manifest: Mapping[str, Any]) -> _Values:
    around = _part(manifest, "environment")
    facts = _told({name: around.get(name) for name in ("host", "system", "cpus")})
    facts |= _told({name: around.get(name.replace(" ", "_")) for name in ("cpu model", "threads", "python")})
    gpus = around.get("gpus")
    facts |= _told({"gpus": ", ".join(map(str, gpus)) if isinstance(gpus, list) else ""})
    packages = _part(around, "packages")
    return facts | _told({f"package {name}": version for name, version in sorted(packages.items())})


def _results(run: pb.Run, manifest: Mapping[str, Any]) -> _Values:
    numbers: list[tuple[str, str, Callable[[float], str]]] = [
        ("mean return", MEAN_RETURN, quantity),
        ("last return", RETURN_TAG, quantity),
        ("last episode length", LENGTH_TAG, quantity),
        ("steps/s", SPS_TAG, quantity),
    ]
    found = {"outcome": Value(state_word(run), state_word(run))} | _told({"why": run.reason})
    for name, tag, text in numbers:
        value = run.headline.get(tag)
        if value is not None and value == value:
            found[name] = Value(value, text(value))
    if run.last_step:
        found["steps"] = Value(int(run.last_step), f"{run.last_step:,}")
    if run.active_seconds:
        found["trained"] = Value(run.active_seconds, duration(run.active_seconds))
    checkpoints = manifest.get("checkpoints")
    if isinstance(checkpoints, list):
        found["checkpoints"] = Value(len(checkpoints), str(len(checkpoints)))
    return found


# ---- putting sides together --------------------------------------------------------------------------------------


def _rows(section: str, sides: Sequence[_Side]) -> Iterator[Row]:
    parts = [side.sections[section] for side in sides]
    for name in _names(parts):
        values = tuple(part.get(name, Value()) for part in parts)
        yield Row(section, name, values, _default_of(name, values, sides) if section == "settings" else None)


def _default_of(name: str, values: Sequence[Value], sides: Sequence[_Side]) -> Value | None:
    """None also where two runs have different ones: then it is nobody's default."""
    known = [side.defaults[name] for side in sides if name in side.defaults]
    known = known or [value for value in values if value.is_default]
    return known[0] if known and all(_same(known[0].raw, other.raw) for other in known[1:]) else None


def _names(sides: Iterable[_Values]) -> list[str]:
    """Of all sides, each once, in the order of the first that has it; packages and settings are sorted already."""
    return list(dict.fromkeys(name for side in sides for name in side))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _told(facts: Mapping[str, Any]) -> _Values:
    """What was recorded, without what is not there. A manifest lies in a run's folder and may hold anything."""
    plain = {name: _plain(value) for name, value in facts.items() if value not in (None, "")}
    return {one_line(str(name))[:_LONGEST_TEXT]: Value(value, _text(value)) for name, value in plain.items()}


def _plain(value: Any) -> Scalar:
    """Switches are words, as in :func:`flat_settings`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float | str) else str(value)


def _text(value: Scalar) -> str:
    text = one_line(str(value))
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def _digest(value: object) -> str | None:
    return value[:_DIGEST] if isinstance(value, str) else None


def _part(content: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A part of a document; {} where it is not there or is none."""
    for name in path:
        inside = content.get(name)
        content = inside if isinstance(inside, Mapping) else {}
    return content
