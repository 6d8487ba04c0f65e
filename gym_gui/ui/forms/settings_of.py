"""A worker's settings as forms write and read them: the one place that knows how they are spelt. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mosaic_protocol.settings_spelling import GENERAL

StartMode: TypeAlias = Literal["resume", "warm_start"]

START_MODES: tuple[StartMode, ...] = ("warm_start", "resume")
_OWN = ("algo", "env_id", "dataset", "seed", "total_timesteps")


@dataclass(frozen=True)
class Start:
    """Where a run begins when it does not begin from nothing."""

    mode: StartMode
    checkpoint: str


@dataclass(frozen=True)
class Settings:
    """The parts of a worker's settings. ``own``: algorithm, environment or dataset, seed, budget; ``program``: what
    else a worker has to know to choose what it runs."""

    own: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    start: Start | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)


def settings_of(
    own: Mapping[str, Any],
    params: Mapping[str, Any],
    start: Start | None = None,
    extras: Mapping[str, Any] | None = None,
    program: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``metadata.worker.config`` of a run. What is None is left out."""
    found = {name: value for name, value in {**(program or {}), **own}.items() if value is not None}
    if params:
        found["params"] = dict(params)
    if start is not None:
        found["start"] = {"mode": start.mode, "checkpoint": start.checkpoint}
    return {**found, "extras": dict(extras)} if extras else found


def parts_of(settings: Mapping[str, Any]) -> Settings:
    """The parts of settings in any spelling: ``params`` or ``extras.algo_params``, ``start`` or a flag of that name.

    What is damaged is taken for absent.
    """
    extras = dict(mapping(settings.get("extras")))
    params = {**mapping(extras.pop("algo_params", None)), **mapping(settings.get("params"))}
    flags = [(mode, params.pop(mode)) for mode in START_MODES if isinstance(params.get(mode), str)]
    named = mapping(settings.get("start"))
    mode, checkpoint = named.get("mode"), named.get("checkpoint")
    start = Start(*flags[0]) if flags else None
    if mode in START_MODES and isinstance(checkpoint, str):
        start = Start(mode, checkpoint)
    return Settings(
        own={name: settings[name] for name in _OWN if settings.get(name) is not None},
        params=params,
        start=start,
        extras=extras,
        program={name: value for name, value in settings.items() if name not in GENERAL},
    )


def mapping(value: Any) -> Mapping[str, Any]:
    """A value that should be an object; one that is not is taken for an empty one."""
    return value if isinstance(value, Mapping) else {}
