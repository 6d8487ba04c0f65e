"""What a run of this worker is to do, read from its parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from spade_bdi_rl_worker.agent.terms import SOURCES
from spade_bdi_rl_worker.learning.strategy import Strategy
from spade_bdi_rl_worker.xmpp import XmppSettings

DEFAULT_EPISODES = 5000
MOST_AGENTS = 16
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True)
class AgentSettings:
    name: str
    plans: str


def agents_of(params: Mapping[str, Any]) -> list[AgentSettings]:
    """``scout=scout,learner``: names, each with plans of its own or those of ``--plans``. Raises UsageError."""
    found = []
    for word in str(params["agents"]).split(","):
        name, _, plans = word.strip().partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"--agents {params['agents']}: {name!r} is no name; use small letters, digits and _, such as learner"
            )
        if name in SOURCES:
            raise UsageError(
                f"--agents {params['agents']}: an agent called {name} would be taken for something else: "
                f"beliefs have the sources {', '.join(SOURCES)}; choose another name"
            )
        found.append(AgentSettings(name, plans or str(params["plans"])))
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise UsageError(f"--agents {params['agents']}: two agents have the same name")
    if len(found) > MOST_AGENTS:
        raise UsageError(f"--agents: at most {MOST_AGENTS} agents, got {len(found)}")
    return found


def xmpp_of(params: Mapping[str, Any]) -> XmppSettings:
    return XmppSettings(
        server=params["xmpp"],
        jid=params["xmpp_jid"],
        host=params["xmpp_host"],
        port=int(params["xmpp_port"]),
        ca_file=params["xmpp_ca_file"],
    )


def strategy_of(params: Mapping[str, Any]) -> Strategy:
    return Strategy(
        epsilon=float(params["epsilon"]),
        epsilon_end=float(params["epsilon_end"]),
        exploration=float(params["exploration_fraction"]),
        alpha=float(params["alpha"]),
        alpha_end=float(params["alpha_end"]),
    )


def episodes_of(settings: Settings) -> int | None:
    """Of each agent; None: the timesteps alone decide."""
    asked = int(settings.params["episodes"])
    return asked or (None if settings.total_timesteps else DEFAULT_EPISODES)


def data_root() -> Path | None:
    """Where the daemon keeps its data, for a run that it started."""
    found = os.environ.get("MOSAIC_HOME") or os.environ.get("MOSAIC_VAR")
    return Path(found) if found else None
