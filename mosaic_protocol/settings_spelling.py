"""How a worker's settings are spelt: the contract's own words, and the other spellings that are understood.

``extras.algo_params`` is ``params``; ``params.resume`` and ``params.warm_start`` are ``start``; what is null or an
empty text was not given. Imports nothing, so that listings and the command line can read settings at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

START_MODES = ("resume", "warm_start")
GENERAL = frozenset({"algo", "env_id", "dataset", "seed", "total_timesteps", "params", "start", "extras", "run_id"})
"""What any worker's settings may have. Whatever else stands beside them says which program runs."""


def respelt(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in the contract's words, unchecked. Raises nothing: two spellings that contradict each other stay as
    they are, and :func:`read_settings` refuses them."""
    told = {name: value for name, value in content.items() if value is not None and value != ""}
    _respell_params(told)
    _respell_start(told)
    return {name: value for name, value in told.items() if name not in ("params", "extras") or value != {}}


def _respell_params(told: dict[str, Any]) -> None:
    extras = told.get("extras")
    if not isinstance(extras, Mapping) or "algo_params" not in extras:
        return
    older = extras["algo_params"]
    if older is None or (isinstance(older, Mapping) and (not older or told.get("params", older) in (older, {}))):
        told["extras"] = {name: value for name, value in extras.items() if name != "algo_params"}
        if older:
            told["params"] = dict(older)


def _respell_start(told: dict[str, Any]) -> None:
    params = told.get("params")
    if not isinstance(params, Mapping):
        return
    spelt = {name: name.replace("-", "_") for name in params if name.replace("-", "_") in START_MODES}
    named = {name: mode for name, mode in spelt.items() if isinstance(params[name], str) and params[name]}
    unset = {name for name in spelt if params[name] in (None, "")}
    if len(named) == 1:
        ((name, mode),) = named.items()
        start = {"mode": mode, "checkpoint": params[name]}
        if told.get("start", start) == start:
            told["start"] = start
            unset.add(name)
    told["params"] = {name: value for name, value in params.items() if name not in unset}


def params_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in settings of whatever spelling, {} where there are none; for listings."""
    params = respelt(content).get("params")
    return dict(params) if isinstance(params, Mapping) else {}


def start_of(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """(mode, checkpoint) in settings of whatever spelling, None for a run from the beginning."""
    start = respelt(content).get("start")
    if not isinstance(start, Mapping) or start.get("mode") not in START_MODES:
        return None
    return str(start["mode"]), str(start.get("checkpoint") or "")
