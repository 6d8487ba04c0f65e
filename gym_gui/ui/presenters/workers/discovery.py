"""Which presenters are installed: the entry-point group ``mosaic.presenters``, worker type → ``package.module:Class``.

A presenter is code that runs inside the cockpit. What is wrong with one becomes a sentence and never hides the others,
and no installed package takes the place of a presenter that comes with MOSAIC.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from gym_gui.ui.presenters.workers.default import WorkerPresenter
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.worker_manifest import DISTRIBUTION

ENTRY_POINT_GROUP = "mosaic.presenters"
_CODE_ROOT = Path(__file__).resolve().parents[4]


def installed_presenters(problems: list[str]) -> dict[str, WorkerPresenter]:
    """Presenters by worker type; a sentence for each that cannot be used is added to ``problems``."""
    try:
        entries = list(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
    except Exception as error:  # noqa: BLE001 - any installed distribution may have broken metadata
        problems.append(f"the installed packages' entry points cannot be read: {one_line(str(error))}")
        return {}
    return presenters_of(entries, problems)


def presenters_of(entries: Iterable[importlib.metadata.EntryPoint], problems: list[str]) -> dict[str, WorkerPresenter]:
    """The same for these entry points. Of two for one worker type a built-in one is kept, else the first by value."""
    found: dict[str, WorkerPresenter] = {}
    for entry in sorted(entries, key=_precedence):
        if entry.name in found:
            problems.append(f"{_called(entry)} is ignored: the worker {entry.name!r} has a presenter already")
            continue
        presenter = _loaded(entry, problems)
        if presenter is not None:
            found[entry.name] = presenter
    return found


def _precedence(entry: importlib.metadata.EntryPoint) -> tuple[bool, str, str]:
    """A presenter is built in that MOSAIC's own distribution names and that lies in its code: names alone can be
    borrowed."""
    named = entry.dist.name.lower().replace("_", "-") if entry.dist is not None else ""
    source = _CODE_ROOT / Path(*entry.module.split(".")).with_suffix(".py")
    is_built_in = named == DISTRIBUTION and source.is_file()
    return not is_built_in, entry.name, entry.value


def _loaded(entry: importlib.metadata.EntryPoint, problems: list[str]) -> WorkerPresenter | None:
    try:
        presenter = entry.load()()
    except Exception as error:  # noqa: BLE001 - importing it runs foreign code
        said = one_line(str(error)) or type(error).__name__
        problems.append(f"{_called(entry)} cannot be loaded, its worker is drawn from its manifest: {said}")
        return None
    if not isinstance(presenter, WorkerPresenter):
        problems.append(f"{_called(entry)} is ignored: it is no WorkerPresenter")
        return None
    return presenter


def _called(entry: importlib.metadata.EntryPoint) -> str:
    return f"the presenter {entry.value!r}"
