"""Whether an environment exists where the script is going to run: with the worker's own packages, or in the script's
managed environment, whose older libraries know other environments."""

from __future__ import annotations

import json
import os
import subprocess

from cleanrl_worker.config import ConfigError
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.plain_text import last_line
from mosaic_worker.supervision.foreign_python import apart, module_command

_PATIENCE_SECONDS = 60.0
_OTHER_NAMES = frozenset({"envpool", "procgen", "pettingzoo", "supersuit", "isaacgym", "isaacgymenvs", "memory_gym"})
"""Libraries with environment names of their own, which only the script itself understands."""


def environment_for(plan: ScriptPlan, env_id: str) -> dict[str, str]:
    """The spaces of an environment, {} when only the script knows them. Raises :class:`ConfigError` when it is not
    there."""
    if plan.libraries & _OTHER_NAMES and plan.order is not None:
        return {}
    if plan.python is None:
        return _described_here(plan, env_id)
    library = "gym" if "gym" in plan.libraries else "gymnasium" if "gymnasium" in plan.libraries else ""
    return _described_there(plan, env_id, library) if library else {}


def _described_here(plan: ScriptPlan, env_id: str) -> dict[str, str]:
    from cleanrl_worker.preflight import describe_environment

    if plan.order is None:
        return describe_environment(env_id, plan.name)
    return describe_environment(env_id) if "gymnasium" in plan.libraries else {}


def _described_there(plan: ScriptPlan, env_id: str, library: str) -> dict[str, str]:
    command = [*module_command("mosaic_worker.harness.probe", plan.python), library, env_id]
    try:
        answer = subprocess.run(
            command,
            env=apart(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{plan.python} could not be asked about {env_id}: {error}") from error
    lines = answer.stdout.splitlines()
    if answer.returncode == 0 and lines:
        found = json.loads(lines[-1])
    else:
        found = {"problem": last_line(answer.stderr) or "it said nothing"}
    if "problem" in found:
        raise ConfigError(f"{env_id} cannot be made with {library} in {plan.python}: {found['problem']}")
    return {name: str(value) for name, value in found.items()}
