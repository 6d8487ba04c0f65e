"""``mosaic datasets``: the commands that make datasets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.commands import dataset_view as view
from gym_gui.cli.options import LARGEST_SEED, Count, json_option, run_argument
from gym_gui.cli.recorded import step_source
from gym_gui.cli.session import CliSession

if TYPE_CHECKING:
    from gym_gui.services.datasets import DatasetEntry

_new_name = click.argument("name", metavar="NAME")
_seed_option = click.option(
    "--seed", type=Count(0, LARGEST_SEED), default=1, show_default=True, help="The same one gives the same data."
)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[view.Progress]:
    progress = view.Progress(quiet=quiet)
    try:
        yield progress
    finally:
        progress.clear()


@click.command("from-run")
@run_argument
@_new_name
@click.option(
    "--only", metavar="actor=NAME", help="Episodes in which this actor made every step; or agent=ID, episode=N."
)
@click.option("--buffer", is_flag=True, help="The replay buffer of the run's last checkpoint (dqn, sac, td3).")
@json_option
@click.pass_obj
def from_run(session: CliSession, run: str, name: str, only: str | None, buffer: bool, as_json: bool) -> None:
    """Make a dataset of a run's whole episodes.

    Episodes that were not played to their end are left out and counted. RUN may also be the folder that `mosaic eval
    --record` names; with --buffer it names a checkpoint. Needs h5py.
    """
    from gym_gui.services.datasets.from_steps import Only, make
    from gym_gui.services.datasets.making import require_h5py

    require_h5py()
    if buffer:
        if only is not None:
            raise click.UsageError("choose one of --only and --buffer: a replay buffer does not know who acted")
        view.tell_made(_from_buffer(session, run, name), as_json=as_json)
        return
    wanted = Only.parse(only) if only is not None else None
    with step_source(session, run) as source, _progress(quiet=as_json) as progress:
        entry = make(source, name, session.paths, wanted, progress.episodes)
    view.tell_made(entry, as_json=as_json)


def _from_buffer(session: CliSession, run: str, name: str) -> DatasetEntry:
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.datasets.buffers import from_buffer

    return from_buffer(TrainingRegistry(session.paths).find(run), name, session.paths)


@click.command("collect")
@_new_name
@click.option(
    "--from",
    "checkpoints",
    metavar="CHECKPOINT",
    multiple=True,
    required=True,
    help="A policy to play, or NAME=CHECKPOINT; may be repeated.",
    shell_complete=candidates.checkpoints,
)
@click.option("--mix", metavar="NAME:SHARE,…", help="How much of each, such as random:0.8,expert:0.2.")
@click.option("--steps", type=Count(1, 10**9), default=20_000, show_default=True, help="At least so many.")
@click.option("--deterministic", is_flag=True, help="Actions that policies prefer, instead of drawn ones.")
@_seed_option
@json_option
@click.pass_obj
def collect(
    session: CliSession,
    name: str,
    checkpoints: tuple[str, ...],
    mix: str | None,
    steps: int,
    deterministic: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Make a dataset by playing with policies.

    Each plays whole episodes until it has its share of the steps. The name `random` in --mix stands for random actions;
    the others take the checkpoints in their order. Needs h5py, and no daemon.
    """
    from gym_gui.services.datasets.collecting import collect as collected
    from gym_gui.services.datasets.collecting import parse_mix
    from gym_gui.services.datasets.making import require_h5py

    require_h5py()
    parts = parse_mix(mix, checkpoints, session.paths, deterministic=deterministic)
    with _progress(quiet=as_json) as progress:
        entry = collected(name, parts, steps, session.paths, seed, progress.part)
    view.tell_made(entry, as_json=as_json)


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@_new_name
@click.option("--env-id", metavar="E", help="The environment it is of.", shell_complete=candidates.environments)
@click.option("--max-episode-steps", type=Count(), help="After how many steps episodes end, for old files.")
@click.option("--clip-actions", is_flag=True, help="Clip actions that are out of bounds instead of refusing them.")
@json_option
@click.pass_obj
def import_file(
    session: CliSession,
    file: Path,
    name: str,
    env_id: str | None,
    max_episode_steps: int | None,
    clip_actions: bool,
    as_json: bool,
) -> None:
    """Make a dataset of an HDF5 file of D4RL's or Minari's.

    FILE may be a folder of Minari's. Values are checked and copied; links, plug-ins and pickles are refused.
    """
    from gym_gui.services.datasets.importing import ImportOrder
    from gym_gui.services.datasets.importing import import_file as imported
    from gym_gui.services.datasets.making import require_h5py

    require_h5py()
    order = ImportOrder(file, name, env_id, max_episode_steps, clip_actions)
    with _progress(quiet=as_json) as progress:
        entry = imported(order, session.paths, progress.rows)
    view.tell_made(entry, as_json=as_json)


@click.command("download")
@click.argument("address", metavar="URL")
@_new_name
@click.option("--sha256", metavar="HASH", help="What the file must hash to.")
@click.option("--env-id", metavar="E", help="The environment it is of.", shell_complete=candidates.environments)
@click.option("--max-episode-steps", type=Count(), help="After how many steps episodes end, for old files.")
@click.option("--clip-actions", is_flag=True, help="Clip actions that are out of bounds instead of refusing them.")
@click.option("--most-bytes", type=Count(1, 2**50), help="Refuse a larger file.  [default: 64 GiB]")
@json_option
@click.pass_obj
def download(
    session: CliSession,
    address: str,
    name: str,
    sha256: str | None,
    env_id: str | None,
    max_episode_steps: int | None,
    clip_actions: bool,
    most_bytes: int | None,
    as_json: bool,
) -> None:
    """Download a dataset and import it.

    URL is an address, or a name of D4RL's such as hopper-medium-v2, antmaze-umaze-v2 or pen-human-v1. A download that
    breaks off goes on where it was when the command is given again.
    """
    from gym_gui.services.datasets import DatasetRegistry
    from gym_gui.services.datasets.downloading import MOST_BYTES, Download, fetched
    from gym_gui.services.datasets.importing import ImportOrder
    from gym_gui.services.datasets.importing import import_file as imported
    from gym_gui.services.datasets.making import require_h5py

    require_h5py()
    DatasetRegistry(session.paths).new_folder(name)
    wanted, known_as = Download.meant(address, sha256, most_bytes or MOST_BYTES)
    source = {"kind": "download", "url": wanted.spoken, "asked_sha256": wanted.sha256, "file": wanted.file_name}
    with _progress(quiet=as_json) as progress, fetched(wanted, session.paths, progress.bytes) as file:
        order = ImportOrder(file, name, env_id, max_episode_steps, clip_actions, known_as, source)
        entry = imported(order, session.paths, progress.rows)
    view.tell_made(entry, as_json=as_json)


@click.command("merge")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.datasets)
@click.option("--into", metavar="NAME", required=True, help="What the new dataset is called.")
@json_option
@click.pass_obj
def merge(session: CliSession, names: tuple[str, ...], into: str, as_json: bool) -> None:
    """Make one dataset of several of the same environment."""
    from gym_gui.services.datasets.merging import merge as merged

    with _progress(quiet=as_json) as progress:
        entry = merged(names, into, session.paths, progress.rows)
    view.tell_made(entry, as_json=as_json)


@click.command("split")
@click.argument("name", metavar="NAME", shell_complete=candidates.datasets)
@click.option("--fractions", metavar="PART:SHARE,…", default="train:0.9,test:0.1", show_default=True)
@_seed_option
@json_option
@click.pass_obj
def split(session: CliSession, name: str, fractions: str, seed: int, as_json: bool) -> None:
    """Make several datasets of one: whole episodes, drawn.

    The parts are called NAME-PART.
    """
    from gym_gui.services.datasets.merging import Share
    from gym_gui.services.datasets.merging import split as parted

    shares = Share.parse_all(fractions)
    with _progress(quiet=as_json) as progress:
        entries = parted(name, shares, session.paths, seed, progress.rows)
    if as_json:
        fmt.echo_json({"datasets": [view.as_object(entry) for entry in entries]})
        return
    for entry in entries:
        view.tell_made(entry, as_json=False)


@click.command("references")
@click.argument("name", metavar="NAME", shell_complete=candidates.datasets)
@click.option(
    "--from",
    "checkpoint",
    metavar="CHECKPOINT",
    required=True,
    help="The policy that counts as the expert.",
    shell_complete=candidates.checkpoints,
)
@click.option("--episodes", type=Count(), default=100, show_default=True, help="Episodes to play with each.")
@click.option("--seed", type=Count(0, LARGEST_SEED), default=7, show_default=True, help="Decides how they begin.")
@json_option
@click.pass_obj
def references(session: CliSession, name: str, checkpoint: str, episodes: int, seed: int, as_json: bool) -> None:
    """Measure what counts as 0 and as 100 in scores on a dataset.

    Plays random actions, and a policy that is an expert, on the environment of this machine.
    """
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.datasets import DatasetRegistry
    from gym_gui.services.datasets.references import measure

    entry = DatasetRegistry(session.paths).find(name)
    entry.require_readable()
    expert = TrainingRegistry(session.paths).find(checkpoint)
    with _progress(quiet=as_json) as progress:
        found = measure(entry, expert, session.paths, episodes=episodes, seed=seed, progress=progress.played)
    if as_json:
        told: dict[str, Any] = {"name": name, "references": view.plain(found)}
        fmt.echo_json(told)
    else:
        click.echo(f"{name}: {view.references_line(found)}")


COMMANDS = (from_run, collect, import_file, download, merge, split, references)
