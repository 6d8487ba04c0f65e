"""``python -m WORKER.cli`` of a worker whose algorithms are scripts: check a config, or run a script and supervise it.

Started by the trainer daemon with ``--config FILE --grpc``; by hand it runs the same script with the same supervisor
and prints lifecycle events as JSON lines. Flags that it does not know are forwarded to the script. What a person can
choose besides is what the worker's manifest declares as its choices.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mosaic_protocol.flag_words import FlagWordError, split_flags
from mosaic_protocol.fork_server import is_warm
from mosaic_protocol.full_disk import print_past_a_full_disk
from mosaic_worker.errors import UsageError
from mosaic_worker.harness.capabilities import as_json as capabilities_as_json
from mosaic_worker.script_worker.config import ConfigError, ScriptConfig
from mosaic_worker.script_worker.facts import facts_of
from mosaic_worker.script_worker.plan import ScriptPlan
from mosaic_worker.supervision.launcher import leave
from mosaic_worker.supervision.supervise import supervise_by_hand, supervise_for_daemon

EXIT_USAGE = 2
_OWN_OPTIONS: dict[str, dict[str, Any]] = {
    "env_id": {"help": "Gymnasium environment, e.g. CartPole-v1"},
    "dataset": {"help": "the dataset to learn from, by its name"},
    "seed": {"type": int},
    "total_timesteps": {"type": int},
}


class _Parser(argparse.ArgumentParser):
    """Refuses like everything else here: in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


@dataclass(frozen=True)
class ScriptWorkerCli:
    """The command line of one worker."""

    config: type[ScriptConfig]
    plan: type[ScriptPlan]
    look: Callable[[Any, Any], dict[str, Any]]
    """What a dry run finds out about environment and data, given config and plan. Raises ConfigError."""

    @property
    def package(self) -> str:
        return self.config.PACKAGE.name

    def main(self) -> int:
        """Do what the command line of this process says; returns the exit status."""
        try:
            options, rest = self._parser().parse_known_args()
            config = self._load(options, rest)
            if options.describe_flags:
                return _describe_flags(self.plan.to_describe(config))
            plan = self.plan.of(config)
            if options.dry_run:
                return self._dry_run(config, plan, emit=options.emit_summary)
            # Only now: what was printed above is the answer itself, and half of it must not pass for one.
            print_past_a_full_disk()
            return _run(config, plan, options)
        except UsageError as error:
            print(f"{self.package}: {' '.join(str(error).split())}", file=sys.stderr)
            return EXIT_USAGE

    def run_as_program(self) -> NoReturn:
        """The end of a module that was started as a program."""
        outcome = self.main()
        if is_warm():
            leave(outcome)
        sys.exit(outcome)

    def _parser(self) -> argparse.ArgumentParser:
        # No abbreviations: --total may be a flag of the script.
        parser = _Parser(prog=f"python -m {self.package}.cli", description=__doc__, allow_abbrev=False)
        parser.add_argument("--config", type=Path, help="JSON file: a worker config or a whole run config")
        parser.add_argument("--algo", help="algorithm, as the manifest calls it")
        for name, choice in self.config.manifest().choices.items():
            how = {"action": "store_true"} if choice.kind == "switch" else {}
            parser.add_argument(f"--{name.replace('_', '-')}", help=choice.help, **how)  # type: ignore[arg-type]
        for name in self.config.OWN_SETTINGS:
            parser.add_argument(f"--{name.replace('_', '-')}", **_OWN_OPTIONS[name])
        parser.add_argument("--dry-run", action="store_true", help="check everything, start nothing")
        parser.add_argument("--emit-summary", action="store_true", help="print what would run as JSON")
        parser.add_argument("--describe-flags", action="store_true", help="print the script's flags as JSON and end")
        parser.add_argument("--grpc", action="store_true", help="report to the trainer daemon that started this")
        parser.add_argument("--grpc-target", help="address of the daemon (default: its Unix socket)")
        return parser

    def _load(self, options: argparse.Namespace, rest: list[str]) -> ScriptConfig:
        overrides = {name: getattr(options, name) for name in ("algo", *self.config.OWN_SETTINGS)}
        for name, choice in self.config.manifest().choices.items():
            if not (given := getattr(options, name)):
                continue
            if choice.kind == "switch":
                overrides |= choice.sets
            else:
                is_path = choice.kind in ("file", "folder")
                overrides[name] = str(Path(given).expanduser().absolute()) if is_path else given
        return self.config.load(options.config, {**overrides, "algo_params": _script_flags(rest)})

    def _dry_run(self, config: ScriptConfig, plan: ScriptPlan, *, emit: bool) -> int:
        """Everything that can be known before the start: script, flags and their values, environment, spaces."""
        from mosaic_worker.scripts.argument_check import check_arguments

        if plan.order is None:
            check_arguments(plan.path, plan.values)
        summary: dict[str, Any] = {
            "status": "ok",
            "algo": plan.name,
            "script": str(plan.path),
            "arguments": list(plan.arguments),
            **{name: getattr(config, name) for name in config.OWN_SETTINGS},
            "total_timesteps": config.total_timesteps or _usual_steps(plan),
        }
        if plan.order is not None:
            summary["python"] = str(plan.python or sys.executable)
            summary["capabilities"] = capabilities_as_json(plan.capabilities)
        summary |= _tracking(plan)
        summary |= self.look(config, plan)
        if emit:
            print(json.dumps(summary))
        return 0


def _tracking(plan: ScriptPlan) -> dict[str, str]:
    """Where rows go besides, of a run that asks for it; and of a script that would ask for an account by itself."""
    from mosaic_worker.tracking.outlook import tracking_sentence

    wanted = bool(plan.values.get("track") or (plan.order is not None and plan.order.track))
    through_a_door = plan.order is not None and plan.order.doors is not None
    return {"tracking": tracking_sentence(wanted, os.environ)} if wanted or through_a_door else {}


def _run(config: ScriptConfig, plan: ScriptPlan, options: argparse.Namespace) -> int:
    facts = facts_of(config, plan)
    if options.grpc:
        steps, target = config.total_timesteps or 0, options.grpc_target
        return supervise_for_daemon(plan, facts, _introduction(config, plan), total_steps=steps, target=target)
    folder = Path("runs") / f"{plan.name}__{config.seed}__{time.time_ns() // 10**6}"
    return supervise_by_hand(plan, facts, folder, str(config.extras.get("tensorboard_dir") or ""))


def _script_flags(words: list[str]) -> dict[str, str | bool]:
    """A value stays the text that was typed, for the flag's own type to read; of a flag given twice the last counts."""
    try:
        return {name: value for _, name, value in split_flags(words)}
    except FlagWordError as error:
        raise ConfigError(str(error)) from None


def _describe_flags(plan: ScriptPlan) -> int:
    """What a form or a help page needs to know of a script, read without running it."""
    told = {
        "algo": plan.name,
        "script": str(plan.path),
        "flags": [flag.as_json() for flag in plan.flags.values()],
        "capabilities": capabilities_as_json(plan.capabilities),
    }
    print(json.dumps(told))
    return 0


def _usual_steps(plan: ScriptPlan) -> int | None:
    """How many steps the script makes when nobody says how many, None where it does not say."""
    flag = plan.flags.get("total_timesteps")
    return flag.default if flag is not None and isinstance(flag.default, int) else None


def _introduction(config: ScriptConfig, plan: ScriptPlan) -> dict[str, Any]:
    """What the worker says of the run when it registers."""
    told: dict[str, Any] = {"algo": plan.name, "env_id": config.env_id, "extras": dict(config.extras)}
    if plan.order is not None:
        told |= {name: one.offered for name, one in plan.capabilities.items()}
    return told
