"""What is said at the end of a run: outcome, numbers, where its files are, what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.session import program, shortest_path
from gym_gui.services.run_pace import own_speed
from mosaic_protocol.headline import EPISODES_TAG, RECENT_EPISODES, RECENT_MEANS, RETURN_TAG
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb


_SHORTEST_MEASURE = 1.0
"""Seconds below which a speed says nothing."""


def tell_end(client: TrainerClient, run: pb.Run, *, full: bool) -> None:
    """Print the outcome and its sentence, then the numbers; ``full`` adds files and what to try next."""
    click.echo(outcome_line(run))
    entries = [*_numbers(client, run), *(_files(run) if full else _folder(run))]
    if entries:
        click.echo(fmt.pairs(entries))
    if full:
        click.echo("\nNext:")
        click.echo("\n".join(f"  {command}" for command in next_commands(run)))
    elif run.outcome in (Outcome.FAILED, Outcome.LOST) and run.started_at:
        click.echo(f"See `{program()} logs {run_view.short_id(run.run_id)}`.")


def outcome_line(run: pb.Run) -> str:
    """Which run ended how, and why."""
    word, reason = run_view.state_word(run), fmt.one_line(run.reason)
    if reason.startswith(word):
        return f"{run_view.called(run)} {fmt.painted(word)}{reason.removeprefix(word)}"
    return f"{run_view.called(run)} {fmt.painted(word)}: {reason}"


def recent_mean_return(client: TrainerClient, run_id: str) -> tuple[float, int] | None:
    """Mean return of the last episodes and how many these were. A run whose rows stand for many episodes says both."""
    told = client.metrics(run_id, [RETURN_TAG, RECENT_MEANS[RETURN_TAG], EPISODES_TAG], max_points=RECENT_EPISODES)
    found = {series.tag: [value for value in series.values if value == value] for series in told}
    if (means := found.get(RECENT_MEANS[RETURN_TAG])) and (counts := found.get(EPISODES_TAG)):
        return means[-1], min(RECENT_EPISODES, int(counts[-1]))
    values = found.get(RETURN_TAG)
    return (sum(values) / len(values), len(values)) if values else None


def _numbers(client: TrainerClient, run: pb.Run) -> list[tuple[str, str]]:
    entries = []
    found = recent_mean_return(client, run.run_id)
    if found is not None:
        mean, episodes = found
        last = "the last episode" if episodes == 1 else f"mean of the last {episodes} episodes"
        entries.append(("return", f"{fmt.quantity(mean)} ({last})"))
    if run.last_step:
        entries.append(("steps", run_view.steps_text(run) + _speed(run)))
    if run.active_seconds:
        entries.append(("duration", fmt.duration(run.active_seconds)))
    return entries


def _speed(run: pb.Run) -> str:
    if run.active_seconds < _SHORTEST_MEASURE:
        return ""
    return f" at {fmt.quantity(round(own_speed(run)))} steps/s"


def _folder(run: pb.Run) -> list[tuple[str, str]]:
    return [("files", shlex.quote(shortest_path(Path(run.run_dir))))] if run.started_at else []


def products(run: pb.Run) -> list[tuple[str, str]]:
    """Where the run's TensorBoard files and its newest checkpoint are, "" for what it has not produced."""
    folder = Path(run.run_dir)
    manifest = read_manifest(RunPaths(folder))
    checkpoints = manifest.get("checkpoints")
    newest = checkpoints[-1] if isinstance(checkpoints, list) and checkpoints else None
    named = {"TensorBoard": manifest.get("tensorboard_dir"), "checkpoint": newest}
    return [(label, _within(folder, name) if isinstance(name, str) else "") for label, name in named.items()]


def tracking(run: pb.Run) -> str:
    """The link of the run's page at W&B, or that what was recorded waits here; "" for a run that is not tracked."""
    from gym_gui.services.wandb.run_side import UploadState, side_of

    side = side_of(Path(run.run_dir), is_over=run_view.is_over(run))
    if side.upload in (UploadState.WAITS, UploadState.PARTLY):
        sync = f"`{program()} wandb sync {run_view.short_id(run.run_id)}` uploads it"
        recorded = "recorded offline" if side.upload is UploadState.WAITS else "not all of it is uploaded"
        return f"{side.url}, {recorded}: {sync}" if side.url else f"{recorded}: {sync}"
    return side.url or (f"tracked {side.mode}" if side.is_tracked else "")


def origin(run: pb.Run) -> list[tuple[str, str]]:
    """Which code a run ran and on what, as it was recorded at its start; "" for what was not."""
    from gym_gui.services.run_diff import compared

    known = {row.name: row.values[0].text for row in compared([run], [read_manifest(RunPaths(Path(run.run_dir)))]).rows}
    commit, changes = known.get("script commit"), known.get("uncommitted changes")
    changed = "" if changes in (None, "none") else f", uncommitted changes in {changes}"
    code = f"commit {commit}{changed}" if commit else ""
    threads = known.get("threads")
    machine = [known.get("cpu model"), f"{threads} thread{'' if threads == '1' else 's'}" if threads else None]
    versions = [f"{label} {known[name]}" for label, name in _VERSIONS if name in known]
    return [("code", code), ("made on", ", ".join([*filter(None, machine), *versions]))]


_VERSIONS = (("Python", "python"), ("torch", "package torch"), ("numpy", "package numpy"))


def _within(folder: Path, name: str) -> str:
    """A path in a run's folder as a person would type it, "" for a name that a run put there and that leads out."""
    path = folder / name
    inside = path.is_relative_to(folder) and ".." not in path.parts and name.isprintable()
    return shlex.quote(shortest_path(path)) if inside else ""


def _files(run: pb.Run) -> list[tuple[str, str]]:
    return [(label, path or "none written") for label, path in products(run)]


def next_commands(run: pb.Run) -> list[str]:
    """Three commands that make sense after this run."""
    short, mosaic = run_view.short_id(run.run_id), program()
    if run.outcome != Outcome.COMPLETED:
        return [f"{mosaic} logs {short}", f"{mosaic} show {short} --history", f"{mosaic} doctor"]
    measured = f"{mosaic} eval {short}" if any(RunPaths(Path(run.run_dir)).checkpoints.glob("step-*")) else ""
    return [f"{mosaic} metrics {short}", f"{mosaic} tensorboard {short}", measured or _longer_run(run, mosaic)]


def _longer_run(run: pb.Run, mosaic: str) -> str:
    """The same with another seed and ten times as long."""
    steps = f" --total-timesteps {10 * run.total_steps}" if run.total_steps else ""
    seed = (run.seed if run.HasField("seed") else 1) + 1
    return f"{mosaic} train {shlex.quote(run.algo)} --env-id {shlex.quote(run.env_id)} --seed {seed}{steps}"
