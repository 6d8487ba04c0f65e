"""``mosaic eval`` and ``mosaic policy``: what a checkpoint has learned, measured and put to use."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import LARGEST_SEED, Count, checkpoint_argument, json_option
from gym_gui.cli.session import CliSession, program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.checkpoints.entry import CheckpointEntry
    from gym_gui.services.worker_tools import WorkerTool

_COLUMNS = (("MEAN", "mean"), ("STD", "std"), ("MEDIAN", "median"), ("IQM", "iqm"), ("MIN", "min"), ("MAX", "max"))


@click.command("eval")
@checkpoint_argument
@click.option("--episodes", type=Count(), default=100, show_default=True, help="Episodes to play in each mode.")
@click.option(
    "--seed", type=Count(0, LARGEST_SEED), default=7, show_default=True, help="Decides how every episode begins."
)
@click.option(
    "--deterministic", is_flag=True, help="Greedy actions only: the one the policy prefers, never a random draw."
)
@click.option("--sampled", is_flag=True, help="Actions drawn as in training only.")
@click.option("--both", is_flag=True, help="One after the other.  [default]")
@click.option(
    "--env-id", metavar="E", help="Another environment with the same spaces.", shell_complete=candidates.environments
)
@click.option("--jobs", type=Count(), help="Processes that play side by side.  [default: one a core, at most 4]")
@click.option("--record", is_flag=True, help="Keep every step, for `mosaic replay`, and some clips.")
@click.option("--offline", is_flag=True, help="Play nothing: estimate from a dataset what it would earn.")
@click.option("--dataset", metavar="D", help="The dataset for --offline.  [default: the checkpoint's own]")
@json_option
@click.pass_obj
def evaluate(
    session: CliSession,
    checkpoint: str,
    episodes: int,
    seed: int,
    deterministic: bool,
    sampled: bool,
    both: bool,
    env_id: str | None,
    jobs: int | None,
    record: bool,
    offline: bool,
    dataset: str | None,
    as_json: bool,
) -> int:
    """Play episodes with a checkpoint and tell how it did.

    The environment is wrapped and observations are normalised as in training; rewards are the true ones. The same seed
    gives the same episodes. Needs no daemon. Ctrl-C ends it with the episodes that were finished. The result is kept
    beside the checkpoint's run.
    """
    from gym_gui.services.checkpoints.evaluations import new_name
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.checkpoints.use import tool

    if dataset and not offline:
        raise click.UsageError("--dataset is for --offline, which plays nothing")
    if offline:
        return _estimate(session, checkpoint, dataset, seed, as_json=as_json)
    mode = _mode(deterministic=deterministic, sampled=sampled, both=both)
    if record and (jobs or 1) > 1:
        raise click.UsageError("choose one of --record and --jobs: recorded episodes are played one after the other")
    entry = TrainingRegistry(session.paths).find(checkpoint)
    words = ["--episodes", str(episodes), "--seed", str(seed), "--mode", mode, "--parent", str(os.getpid())]
    words += ["--env-id", env_id] if env_id else []
    words += ["--jobs", str(jobs)] if jobs else []
    words += ["--record", str(new_name(entry, "-recorded"))] if record else []
    with tool("evaluate", entry, session.paths, words) as running:
        result = _Watcher(episodes, quiet=as_json).until_done(running)
    if result is None:
        raise CliError("interrupted before the first episode began", ExitCode.INTERRUPTED)
    result = _kept(entry, result)
    if as_json:
        fmt.echo_json(result)
    else:
        _tell(entry, result)
    return ExitCode.OK if result["complete"] else ExitCode.INTERRUPTED


def _estimate(session: CliSession, checkpoint: str, dataset: str | None, seed: int, *, as_json: bool) -> int:
    """What a checkpoint would earn, judged without an environment."""
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.checkpoints.use import tool

    entry = TrainingRegistry(session.paths).find(checkpoint)
    name = dataset or str(entry.offline_dataset.get("name") or "")
    if not name:
        raise CliError(f"{entry.id} learned from no dataset: give one with --dataset", ExitCode.REFUSED)
    words = ["--dataset", name, "--seed", str(seed), "--parent", str(os.getpid())]
    with tool("estimate", entry, session.paths, words) as running:
        result = _Watcher(0, quiet=True).until_done(running)
    if result is None:
        raise CliError("interrupted before there was an estimate", ExitCode.INTERRUPTED)
    result.pop("at", None)
    if as_json:
        fmt.echo_json({"checkpoint": entry.id, **result})
    else:
        _tell_estimates(entry, result)
    return ExitCode.OK


def _tell_estimates(entry: CheckpointEntry, result: dict[str, Any]) -> None:
    data = result["dataset"]
    episodes = fmt.counted(data["episodes"], "episode")
    click.echo(f"{entry.id}: {result['algo']}, judged by {data['name']} ({episodes}), nothing was played")
    estimates = result["estimates"]
    named = {
        "the data's own policy": result["behaviour"],
        "fitted Q (estimate)": estimates["fitted_q"],
        "importance (estimate)": estimates["weighted_importance"],
    }
    rows = [[name, *(_shown(one[key]) for key in ("value", "low", "high"))] for name, one in named.items()]
    click.echo(
        fmt.table(["DISCOUNTED RETURN", "VALUE", "LOW", "HIGH"], rows, right=frozenset(("VALUE", "LOW", "HIGH")))
    )
    carried = estimates["weighted_importance"]["effective_episodes"] or 0.0
    click.echo(f"Importance sampling rests on {carried:.1f} of {data['episodes']:,} episodes' worth of data.")
    click.echo(fmt.dimmed(f"Discount {result['discount']:g}; estimates with 95 % intervals, not measurements."))


def _shown(value: float | None) -> str:
    return fmt.MISSING if value is None else fmt.quantity(value)


def _mode(**asked: bool) -> str:
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise click.UsageError("choose one of --deterministic, --sampled and --both")
    return chosen[0] if chosen else "both"


@dataclass
class _Watcher:
    """Shows how an evaluation goes on, on a terminal only, and asks it to end on Ctrl-C."""

    episodes: int
    quiet: bool
    returns: dict[str, list[float]] = field(default_factory=dict)

    def until_done(self, running: WorkerTool) -> dict[str, Any] | None:
        """The result; None when it was interrupted before there could be one."""
        interrupted, result = False, None
        while True:
            try:
                for message in running.messages():
                    if message.get("at") == "result":
                        result = message
                    self._show(message)
                self._clear()
                return result
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                running.stop()
            except Exception:
                self._clear()
                if interrupted and result is None:  # it ended while it was still getting ready
                    return None
                raise

    def _show(self, message: dict[str, Any]) -> None:
        if message.get("at") == "episode" and message.get("return") is not None:
            self.returns.setdefault(message["mode"], []).append(message["return"])
        if self.quiet or not sys.stderr.isatty() or "mode" not in message:
            return
        done = self.returns.get(message["mode"], [])
        line = f"{message['mode']}  {len(done)}/{self.episodes} episodes"
        if done:
            line += f"  mean {fmt.quantity(sum(done) / len(done))}"
        if message["at"] == "progress":
            line += f"  {message['steps']:,} steps"
        sys.stderr.write(f"\r{fmt.cut(line, fmt.terminal_width() - 1)}\x1b[K")
        sys.stderr.flush()

    def _clear(self) -> None:
        if not self.quiet and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _kept(entry: CheckpointEntry, result: dict[str, Any]) -> dict[str, Any]:
    """The result with what it is about, written down unless it is empty or the disk refuses."""
    from gym_gui.services.checkpoints import evaluations

    whole = evaluations.described(entry, result)
    if not any(one["episodes"] for one in result["results"].values()):
        return {**whole, "file": None}
    try:
        return {**whole, "file": str(evaluations.keep(entry, whole))}
    except OSError as error:
        click.echo(f"The result could not be kept: {error.strerror}.", err=True)
        return {**whole, "file": None}


def _tell(entry: CheckpointEntry, result: dict[str, Any]) -> None:
    wanted = fmt.counted(result["episodes"], "episode")
    click.echo(f"{entry.id}: {result['algo']} on {result['env_id']}, {wanted}, seed {result['seed']}")
    rows = [_row(mode, one) for mode, one in result["results"].items() if one["episodes"]]
    if rows:
        headers = ["", *(header for header, _ in _COLUMNS), "LENGTH", "EPISODES"]
        click.echo(fmt.table(headers, rows, right=frozenset(headers[1:])))
    for note in result["notes"]:
        click.echo(fmt.one_line(note))
    for video in result.get("videos", []):
        click.echo(f"  {shortest_path(Path(video))}")
    for folder in result.get("recordings", {}).values():
        command = shlex.join([*program().split(), "replay", shortest_path(Path(folder)), "--episode", "0"])
        click.echo(f"Every step was recorded: {command}")
    seconds = result["wall_seconds"]
    took = f"{seconds:.1f} s" if seconds < 10 else fmt.duration(seconds)
    told = f"Took {took}" if result["complete"] else f"Interrupted after {took}"
    kept = f"; kept in {shortest_path(Path(result['file']))}" if result["file"] else "; nothing was measured"
    click.echo(fmt.dimmed(fmt.hanging(f"{told}{kept}")))


def _row(mode: str, one: dict[str, Any]) -> list[str]:
    numbers = [fmt.MISSING if one[key] is None else fmt.quantity(one[key]) for _, key in _COLUMNS]
    return [mode, *numbers, fmt.quantity(one["mean_length"]), str(one["episodes"])]


# ---- the policy process ------------------------------------------------------------------------------------------


@click.command()
@checkpoint_argument
@click.option("--seed", type=Count(0, LARGEST_SEED), help="Seed of what is drawn.  [default: a new one]")
@click.pass_obj
def policy(session: CliSession, checkpoint: str, seed: int | None) -> None:
    """Let a checkpoint choose actions, for programs.

    Questions are read from stdin and answered on stdout, one JSON object a line; the reference of the policy process
    says what is in them. Ends with its input. Needs no daemon.
    """
    from gym_gui.services import worker_tools
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.checkpoints.use import require_whole, tool_for

    entry = TrainingRegistry(session.paths).find(checkpoint)
    require_whole(entry)
    manifest, module = tool_for("act", entry.algo, entry.worker)
    words = ["--checkpoint", str(entry.path), *(["--seed", str(seed)] if seed is not None else [])]
    command = worker_tools.command(manifest, session.paths, module, words)
    # In place of this process: the program that started it talks to the policy itself, and signals reach it.
    os.execve(command[0], command, worker_tools.environment(manifest, session.paths))
