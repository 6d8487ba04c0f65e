"""The runs of a campaign: what each is meant to do, so that the checker knows afterwards what it should have done.

No two runs log the same value: a scalar is the run's offset plus the step.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gym_gui.tests.support.cleanrl_runs import SCRIPTS, cleanrl_config
from gym_gui.tests.support.daemon_process import toy_config

ENDLESS = 10**9
OFFSET = 1_000_000.0
TOY_BREAKS = "the toy broke"
_PPO_ROLLOUT = 512


@dataclass(frozen=True)
class Plan:
    """One run as it was submitted."""

    name: str
    kind: str
    config: dict[str, Any]
    total: int
    """Steps after which it completes by itself."""
    offset: float | None
    """What is added to the step in every scalar; None where the values are not known beforehand."""
    ends: str
    """The outcome without faults and without a cancel; "" when it goes on until it is stopped."""


def plan(number: int, rng: random.Random, kinds: dict[str, int]) -> Plan:
    """The run number so and so; ``kinds`` weighs what it may be."""
    kind = rng.choices(list(kinds), weights=list(kinds.values()))[0]
    return _MAKERS[kind](f"nemesis-{number}", kind, number * OFFSET, rng)


def _toy(name: str, kind: str, offset: float, total: int, ends: str, **settings: Any) -> Plan:
    config = toy_config(name=name, total_timesteps=total, offset=offset, bare=True, **settings)
    return Plan(name, kind, config, total, offset, ends)


def _short(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, rng.randint(20, 150), "completed", step_seconds=0.01, cpus=rng.choice((1, 1, 2)))


def _long(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, rng.randint(400, 1500), "completed", step_seconds=0.01)


def _endless(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, ENDLESS, "", step_seconds=0.02)


def _deaf(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, ENDLESS, "", step_seconds=0.01, misbehave="ignore_stop", at_step=rng.randint(5, 50))


def _crash(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, ENDLESS, "failed", step_seconds=0.01, misbehave="crash", at_step=rng.randint(5, 90))


def _family(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    settings = {"step_seconds": 0.01, "misbehave": "grandchildren", "at_step": 3}
    return _toy(name, kind, offset, rng.randint(100, 600), "completed", **settings)


def _limited(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    return _toy(name, kind, offset, ENDLESS, "timed_out", step_seconds=0.02, max_wallclock_minutes=0.05)


def _script(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    total = rng.randint(100, 500)
    flags = {"offset": offset, "bare": 1, "step_seconds": 0.01}
    config = cleanrl_config(flags, script=str(SCRIPTS / "obedient.py"), total_timesteps=total)
    return Plan(name, kind, {**config, "run_name": name}, total, offset, "completed")


def _ppo(name: str, kind: str, offset: float, rng: random.Random) -> Plan:
    total = _PPO_ROLLOUT * rng.randint(2, 8)
    config = cleanrl_config({}, algo="ppo", env_id="CartPole-v1", total_timesteps=total)
    return Plan(name, kind, {**config, "run_name": name}, total, None, "completed")


_MAKERS: dict[str, Callable[[str, str, float, random.Random], Plan]] = {
    "short": _short,
    "long": _long,
    "endless": _endless,
    "deaf": _deaf,
    "crash": _crash,
    "family": _family,
    "limited": _limited,
    "script": _script,
    "ppo": _ppo,
}

MIX = {"short": 30, "long": 25, "endless": 8, "deaf": 4, "crash": 6, "family": 7, "limited": 5, "script": 12, "ppo": 3}
"""How often each kind is submitted."""
