"""Runs one script under the harness, to its end."""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mosaic_worker.harness import capabilities, row_tap
from mosaic_worker.harness.instrument import ENTER_NAME, LOOP_NAME, TURN_NAME, compiled
from mosaic_worker.harness.source import ScriptSource
from mosaic_worker.harness.surroundings import prepare
from mosaic_worker.supervision import control

if TYPE_CHECKING:
    from mosaic_worker.harness.conductor import Settings


OPTIONS: dict[str, type[int] | type[str]] = {
    "checkpoint_every": int,
    "checkpoint_keep": int,
    "resume": str,
    "warm_start": str,
    "doors": str,
    "total": int,
    "per_turn": int,
}
"""What an order says with one word each; None is nothing."""


@dataclass(frozen=True)
class HarnessOrder:
    """How the harness is to run a script, as its command line says it."""

    algo: str
    checkpoint_every: int | None = None
    checkpoint_keep: int | None = None
    resume: str | None = None
    warm_start: str | None = None
    search: tuple[str, ...] = ()
    """Further folders for the script's imports."""
    doors: str | None = None
    """A folder of packages that stand for libraries (:mod:`mosaic_worker.harness.row_tap`), ahead of all others."""
    total: int | None = None
    per_turn: int | None = None
    track: bool = False
    """Weights & Biases gets the rows of a script that has no writer of its own."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What checkpoints say beside the script's own arguments."""
    dataset: Mapping[str, Any] = field(default_factory=dict)
    """What the script learns from: name and sha256."""

    def words(self) -> list[str]:
        """The command line that :mod:`mosaic_worker.harness` reads this from."""
        given = {name: getattr(self, name) for name in OPTIONS if getattr(self, name) is not None}
        options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
        options += [f"--search={folder}" for folder in self.search]
        options += ["--track"] if self.track else []
        for name in ("origin", "dataset"):
            options += [f"--{name}={json.dumps(dict(found))}"] if (found := getattr(self, name)) else []
        return ["--algo", self.algo, *options]


def run_under_harness(path: Path, arguments: list[str], order: HarnessOrder) -> None:
    """Execute the script as the main module of this process. Leaves by SystemExit when it is ended from outside."""
    source = ScriptSource.read(path)
    words = _with_resumed_flags(path, arguments, order)
    sys.argv = [str(path), *words]
    prepare(source, order.search, words, order.doors)
    from mosaic_worker.harness.conductor import Conductor
    from mosaic_worker.harness.taps import tap_writers
    from mosaic_worker.training.session import TrainingSession

    settings = _settings(order)
    writes_files = os.environ.get(control.TENSORBOARD_VARIABLE) != "0"
    if capabilities.writer_of(source) is not None or order.doors is None:
        os.environ[control.TENSORBOARD_VARIABLE] = "0"  # the script's own writer is enough
    tracked = {"track": True, **order.origin} if order.track else {}
    session = TrainingSession.open({"checkpoint_keep": settings.checkpoint_keep, **tracked}, order.algo)
    can = capabilities.of_source(source)
    conductor = Conductor(session, source, settings, can["checkpoint"].offered)
    row_tap.listen(conductor)
    if order.dataset:
        session.note_dataset(order.dataset)
    tap_writers(conductor.heard, session.tensorboard_dir if writes_files else None, session.with_space)
    script = sys.modules["__main__"] = ModuleType("__main__")
    vars(script).update(__file__=str(path), __builtins__=builtins, __cached__=None)
    vars(script).update({LOOP_NAME: conductor.loop, ENTER_NAME: conductor.enter, TURN_NAME: conductor.turn})
    failed = True
    try:
        conductor.start(vars(script))
        exec(compiled(source), vars(script))  # noqa: S102 - the user's script is what this process is for
        conductor.finish()
        failed = False
    except SystemExit as ending:
        failed = ending.code not in (None, 0)
        raise
    finally:
        conductor.abandon()
        session.close(failed=failed)


def _settings(order: HarnessOrder) -> Settings:
    from mosaic_worker.harness.conductor import Settings

    given = {name: getattr(order, name) for name in OPTIONS if name != "doors"}
    chosen = {name: value for name, value in given.items() if value is not None}
    return Settings(order.algo, **chosen, origin=order.origin)


def _with_resumed_flags(path: Path, arguments: list[str], order: HarnessOrder) -> list[str]:
    """A resumed run has the flags of the run it goes on from, unless the user gives others."""
    if order.resume is None:
        return arguments
    from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest
    from mosaic_worker.scripts.flags import command_line, read_flags

    try:
        saved = read_manifest(Path(order.resume)).args
    except CheckpointError as error:
        print(f"{order.resume} cannot be used: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from None
    flags = read_flags(path)
    kept = {name: value for name, value in saved.items() if name in flags and value is not None}
    return [*command_line(kept, flags), *arguments]
