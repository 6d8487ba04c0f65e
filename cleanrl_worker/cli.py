"""``python -m cleanrl_worker.cli``: check a config, or run one script under supervision.

Started by the trainer daemon with ``--config FILE --grpc``; by hand it runs the same script with the same supervisor
and prints lifecycle events as JSON lines. Flags that it does not know are forwarded to the script.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from cleanrl_worker.analytics import facts_of
from cleanrl_worker.config import ConfigError, WorkerConfig
from cleanrl_worker.foreign_environment import environment_for
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.flag_words import FlagWordError, split_flags
from mosaic_protocol.fork_server import is_warm
from mosaic_protocol.full_disk import print_past_a_full_disk
from mosaic_worker.errors import UsageError
from mosaic_worker.harness.capabilities import as_json as capabilities_as_json
from mosaic_worker.supervision.launcher import leave
from mosaic_worker.supervision.supervise import supervise_by_hand, supervise_for_daemon

EXIT_USAGE = 2


class _Parser(argparse.ArgumentParser):
    """Refuses like everything else here: in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _parser() -> argparse.ArgumentParser:
    # No abbreviations: --total may be a flag of the script.
    parser = _Parser(prog="python -m cleanrl_worker.cli", description=__doc__, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="JSON file: a worker config or a whole run config")
    parser.add_argument("--algo", help="algorithm, e.g. ppo")
    parser.add_argument("--script", help="a training script of your own instead of an algorithm")
    parser.add_argument("--upstream", action="store_true", help="upstream CleanRL's script of the algorithm, not ours")
    parser.add_argument("--cleanrl-path", help="the folder of a CleanRL checkout to take the script from")
    parser.add_argument("--bundle", help="the managed environment that the script runs in")
    parser.add_argument("--env-id", help="Gymnasium environment, e.g. CartPole-v1")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--total-timesteps", type=int)
    parser.add_argument("--dry-run", action="store_true", help="check everything, start nothing")
    parser.add_argument("--emit-summary", action="store_true", help="print what would run as JSON")
    parser.add_argument("--describe-flags", action="store_true", help="print the script's flags as JSON, start nothing")
    parser.add_argument("--grpc", action="store_true", help="report to the trainer daemon that started this process")
    parser.add_argument("--grpc-target", help="address of the daemon (default: its Unix socket)")
    return parser


def main() -> int:
    try:
        options, rest = _parser().parse_known_args()
        config = _load(options, rest)
        plan = ScriptPlan.of(config)
        if options.describe_flags:
            return _describe_flags(plan)
        if options.dry_run:
            return _dry_run(config, plan, emit=options.emit_summary)
        # Only now: what was printed above is the answer itself, and half of it must not pass for one.
        print_past_a_full_disk()
        facts = facts_of(config, plan)
        if options.grpc:
            steps, target = config.total_timesteps or 0, options.grpc_target
            return supervise_for_daemon(plan, facts, _introduction(config, plan), total_steps=steps, target=target)
        folder = Path("runs") / f"{plan.name}__{config.seed}__{time.time_ns() // 10**6}"
        return supervise_by_hand(plan, facts, folder, str(config.extras.get("tensorboard_dir") or ""))
    except UsageError as error:
        print(f"cleanrl_worker: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_USAGE


def _load(options: argparse.Namespace, rest: list[str]) -> WorkerConfig:
    names = ("algo", "script", "cleanrl_path", "bundle", "env_id", "seed", "total_timesteps")
    overrides = {name: getattr(options, name) for name in names}
    overrides["source"] = "cleanrl" if options.upstream else None
    for name in ("script", "cleanrl_path"):
        if overrides[name]:
            overrides[name] = str(Path(overrides[name]).expanduser().absolute())
    return WorkerConfig.load(options.config, {**overrides, "algo_params": _script_flags(rest)})


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


def _dry_run(config: WorkerConfig, plan: ScriptPlan, *, emit: bool) -> int:
    """Everything that can be known before the start: script, flags and their values, environment, spaces."""
    from cleanrl_worker.preflight import check_action_space
    from mosaic_worker.scripts.argument_check import check_arguments

    if plan.order is None:
        check_arguments(plan.path, plan.values)
    summary: dict[str, Any] = {
        "status": "ok",
        "algo": plan.name,
        "script": str(plan.path),
        "arguments": list(plan.arguments),
        "env_id": config.env_id,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps or _usual_steps(plan),
    }
    if plan.order is not None:
        summary["python"] = str(plan.python or sys.executable)
        summary["capabilities"] = capabilities_as_json(plan.capabilities)
    if config.env_id and (found := environment_for(plan, config.env_id)):
        check_action_space(plan.name, plan.action_spaces, config.env_id, found)
        summary.update(found)
    if emit:
        print(json.dumps(summary))
    return 0


def _introduction(config: WorkerConfig, plan: ScriptPlan) -> dict[str, Any]:
    """What the worker says of the run when it registers."""
    told: dict[str, Any] = {"algo": plan.name, "env_id": config.env_id, "extras": dict(config.extras)}
    if plan.order is not None:
        told |= {name: one.offered for name, one in plan.capabilities.items()}
    return told


if __name__ == "__main__":
    outcome = main()
    leave(outcome) if is_warm() else sys.exit(outcome)
