"""The command line of a worker that trains in its own process: a new worker's ``cli.py`` is a function and a call.

::

    def train(session: TrainingSession, settings: Settings) -> None:
        ...

    if __name__ == "__main__":
        run_worker(Path(__file__).parent, train)

The daemon starts it with ``--config FILE --grpc``; by hand it trains in a folder below ``runs/``. ``--dry-run`` checks
everything and starts nothing, ``--describe-flags`` prints the worker's parameters. What is refused is refused in one
sentence with status 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mosaic_protocol import events
from mosaic_protocol.checkpoint_manifest import CheckpointError
from mosaic_protocol.flag_words import FlagWordError, split_flags
from mosaic_protocol.fork_server import is_warm
from mosaic_protocol.full_disk import print_past_a_full_disk
from mosaic_protocol.plain_text import clean_line, one_line
from mosaic_protocol.settings_spelling import respelt
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest
from mosaic_worker.config_file import read_config_file
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings, read_flags, read_settings
from mosaic_worker.supervision.control import CHECKPOINTS_VARIABLE, TENSORBOARD_DIR_VARIABLE

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession

EXIT_FAILED = 1
EXIT_USAGE = 2

Train: TypeAlias = "Callable[[TrainingSession, Settings], None]"
"""Trains one run to its end: begin, loop with safe points, save. Raises UsageError for what cannot be done; any other
exception fails the run with its text. Heavy libraries are imported in it, while the session is talking already."""
Check: TypeAlias = Callable[[Settings], Mapping[str, Any] | None]
"""Refuses what can be refused before the start, with UsageError; may return more for the summary of a dry run."""


def run_worker(package: Path, train: Train, check: Check | None = None) -> NoReturn:
    """Be the worker's process, to its end. `package`: the folder with the manifest."""
    status = main(package.resolve(), train, check)
    if is_warm():
        from mosaic_worker.supervision.launcher import leave

        leave(status)
    sys.exit(status)


def main(package: Path, train: Train, check: Check | None = None, words: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 for a checkpoint that could not be written or read, 2 for what was refused, 75 for a launch
    that was revoked."""
    try:
        options, rest = _parser(package).parse_known_args(words)
        manifest = load_manifest(package)
        if options.describe_flags:
            return _describe(manifest, options.algo)
        settings = read_settings(manifest, _config(options, rest))
        told = dict(check(settings) or {}) if check is not None else {}
        if options.dry_run:
            return _dry_run(settings, told, emit=options.emit_summary)
        print_past_a_full_disk()
        if settings.checkpoints.get("enabled") is False:
            os.environ[CHECKPOINTS_VARIABLE] = "0"
        os.environ.update(settings.environment())
        if options.grpc:
            return _train_for_daemon(manifest, settings, train, options.grpc_target)
        return _train_by_hand(settings, train)
    except UsageError as error:
        _say(package, error)
        return EXIT_USAGE
    except CheckpointError as error:  # its sentence says what could not be kept, and where
        _say(package, error)
        return EXIT_FAILED


def _say(package: Path, error: Exception) -> None:
    print(f"{package.name}: {one_line(str(error))}", file=sys.stderr)
    for line in getattr(error, "excerpt", ()):
        print(f"{package.name}| {clean_line(line)}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """Refuses like everything else here: in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _parser(package: Path) -> argparse.ArgumentParser:
    # No abbreviations: --total may be a parameter of the worker.
    about = f"Run the worker in {package.name}. Other flags are parameters of the worker."
    parser = _Parser(prog=f"python -m {package.name}.cli", description=about, allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="JSON file: a worker config or a whole run config")
    parser.add_argument("--algo")
    parser.add_argument("--env-id")
    parser.add_argument("--dataset")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--total-timesteps", type=int)
    parser.add_argument("--dry-run", action="store_true", help="check everything, start nothing")
    parser.add_argument("--emit-summary", action="store_true", help="print what would run as JSON")
    parser.add_argument("--describe-flags", action="store_true", help="print the worker's parameters as JSON")
    parser.add_argument("--grpc", action="store_true", help="report to the trainer daemon that started this process")
    parser.add_argument("--grpc-target", help="address of the daemon (default: its Unix socket)")
    return parser


def _config(options: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    """The config file with the command line's words over it."""
    content = respelt(read_config_file(options.config)) if options.config is not None else {}
    names = ("algo", "env_id", "dataset", "seed", "total_timesteps")
    content |= {name: value for name in names if (value := getattr(options, name)) is not None}
    try:
        typed = {name: value for _, name, value in split_flags(rest)}
    except FlagWordError as error:
        raise UsageError(str(error)) from None
    if typed:
        content["params"] = {**(content.get("params") or {}), **typed}
    return content


def _describe(manifest: WorkerManifest, algo: str | None) -> int:
    """What a form or a help page needs to know."""
    flags, can, why = read_flags(manifest), manifest.capabilities, "the worker's manifest says so"
    offered = {name: getattr(can, name) for name in ("pause", "checkpoint", "warm_start", "resume")}
    told = {
        "algo": algo or next(iter(manifest.algorithms), ""),
        "script": "",
        "flags": [flag.as_json() for flag in flags.values()],
        "capabilities": {name: {"offered": one, "why": why} for name, one in offered.items()},
    }
    print(json.dumps(told))
    return 0


def _dry_run(settings: Settings, told: Mapping[str, Any], *, emit: bool) -> int:
    if emit:
        summary = {
            "status": "ok",
            "algo": settings.algo,
            "env_id": settings.env_id,
            **({"dataset": settings.dataset} if settings.dataset else {}),
            "seed": settings.seed,
            "total_timesteps": settings.total_timesteps,
            "params": dict(settings.params),
        }
        print(json.dumps({**summary, **told}))
    return 0


def _train_for_daemon(manifest: WorkerManifest, settings: Settings, train: Train, target: str | None) -> int:
    """Talk first, then import what training needs: the handshake and the heartbeats do not wait for PyTorch."""
    from mosaic_protocol.worker_client import WorkerSession
    from mosaic_worker.supervision.analytics import AnalyticsManifest

    about = {"algo": settings.algo, "env_id": settings.env_id}
    try:
        conversation = WorkerSession.from_environment(about, target=target)
    except RuntimeError as error:  # started with --grpc, but not by a daemon
        raise UsageError(str(error)) from error
    with conversation:
        from mosaic_worker.supervision.launcher import use_threads_of_this_run
        from mosaic_worker.training.session import TrainingSession

        if is_warm():
            use_threads_of_this_run()
        conversation.progress(0, settings.total_timesteps or 0, "starting")
        facts = {**about, "worker": manifest.type, "seed": settings.seed, "resolved": dict(settings.params)}
        facts |= {"total_timesteps": settings.total_timesteps, "code": _code_of(train)}
        analytics = AnalyticsManifest(conversation.run, facts)
        try:
            with TrainingSession.within(conversation, settings.arguments(), settings.algo, analytics) as session:
                train(session, settings)
        except UsageError as error:
            conversation.lifecycle(events.RUN_FAILED, str(error))
            raise
    return 0


def _code_of(train: Train) -> dict[str, Any] | None:
    """The file in which training is written, None for what is in no file."""
    from mosaic_protocol.provenance import code_record

    module = sys.modules.get(getattr(train, "__module__", ""))
    file = getattr(module, "__file__", None)
    return code_record(Path(file)) if file else None


def _train_by_hand(settings: Settings, train: Train) -> int:
    from mosaic_worker.training.session import TrainingSession

    if asked := (settings.config.get("extras") or {}).get("tensorboard_dir"):
        os.environ[TENSORBOARD_DIR_VARIABLE] = str(asked)
    with TrainingSession.open(settings.arguments(), settings.algo) as session:
        train(session, settings)
    return 0
