"""What the shell offers when somebody presses Tab. Quick, silent, and never the reason that a daemon starts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps

import click
from click.shell_completion import CompletionItem

from gym_gui.cli.run_view import short_id, state_word
from gym_gui.cli.session import NEWEST, CliSession
from mosaic_protocol.paths import MosaicPaths, default_root

_TIMEOUT = 1.0
_MOST_RUNS = 200

Candidates = Callable[[click.Context, click.Parameter, str], Iterator[CompletionItem]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _silently(find: Candidates) -> Completer:
    """Whatever goes wrong while completing, the person is typing and did not ask for it."""

    @wraps(find)
    def wrapper(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return list(find(ctx, param, incomplete))
        except Exception:  # noqa: BLE001 - nothing may be printed here
            return []

    return wrapper


@_silently
def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """The ends of ids, which are what listings show, and whatever else was begun: whole ids or names. A name that a
    shell would take for several words is completed to the id."""
    if NEWEST.startswith(incomplete):
        yield CompletionItem(NEWEST, help="the newest run")
    from_trash = ctx.info_name == "restore"
    with _session(ctx) as session:
        client = session.impatient_client(_TIMEOUT)
        if client is None:
            return
        with closing(client):
            listed = client.runs(size=_MOST_RUNS, include_deleted=from_trash).runs
    names = Counter(run.name for run in listed)
    for run in listed:
        if from_trash and not run.deleted:
            continue
        words = [short_id(run.run_id), run.run_id, *([run.name] if names[run.name] == 1 else [])]
        if word := _begun(words, incomplete):
            plain = word if shlex.quote(word) == word else short_id(run.run_id)
            yield CompletionItem(plain, help=f"{run.name}, {state_word(run)}")


@_silently
def hosts(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from gym_gui.services.hosts.book import ANY, HERE, HostBook

    known = HostBook(CliSession.at(ctx.find_root().params.get("home")).paths).hosts()
    words = [*known, *([ANY] if ctx.info_name in ("train", "sweep", "start", "move") else [])]
    words += [HERE] if ctx.info_name == "move" else []
    yield from (CompletionItem(word) for word in words if word.startswith(incomplete))


@_silently
def host_labels(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from gym_gui.services.hosts.book import HostBook
    from mosaic_protocol.host_labels import GPU

    known = HostBook(CliSession.at(ctx.find_root().params.get("home")).paths).hosts().values()
    words = sorted({GPU, *(label for host in known for label in host.labels)})
    yield from (CompletionItem(word) for word in words if word.startswith(incomplete))


@_silently
def presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """The presets of the algorithm that was typed."""
    from mosaic_protocol.worker_manifest import discover
    from mosaic_protocol.worker_presets import presets_of

    offered = [one for manifest in discover().workers.values() for one in presets_of(manifest)[0]]
    for one in offered:
        is_meant = one.algo == ctx.params.get("algo") and ctx.params.get("env_id") in (None, one.env_id)
        if is_meant and one.name.startswith(incomplete):
            yield CompletionItem(one.name, help=f"for {one.env_id}")


@_silently
def filter_terms(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """The fields of an expression, and after ``state=`` and ``outcome=`` their words."""
    from gym_gui.services.run_filter import FIELDS, WORDS

    begun = incomplete.rpartition(" ")[2]
    before = incomplete.removesuffix(begun)
    for field in FIELDS:
        if field.name.startswith(begun):
            yield CompletionItem(f"{before}{field.name}=", help=field.meaning)
        elif begun.startswith(f"{field.name}=") and field.name in WORDS:
            typed = begun.partition("=")[2]
            words = (word for word in WORDS[field.name] if word.startswith(typed))
            yield from (CompletionItem(f"{before}{field.name}={word}") for word in words)


@_silently
def checkpoints(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """Checkpoints by the ids that listings show; they are read from the disk, so no daemon is needed."""
    from gym_gui.services.checkpoints.registry import TrainingRegistry

    if (paths := _paths_here(ctx)) is None:
        return
    for entry in TrainingRegistry(paths).entries()[:_MOST_RUNS]:
        if word := _begun([entry.id], incomplete):
            yield CompletionItem(word, help=f"{entry.run_name}, {entry.algo} on {entry.env_id}")


@_silently
def datasets(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from gym_gui.services.datasets import DatasetRegistry

    if (paths := _paths_here(ctx)) is None:
        return
    for entry in DatasetRegistry(paths).list():
        if entry.name.startswith(incomplete):
            yield CompletionItem(entry.name, help=(entry.found.env_id or "") if entry.found else "")


@_silently
def arenas(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from gym_gui.services.arena.store import ArenaStore

    if (paths := _paths_here(ctx)) is None:
        return
    for found in ArenaStore(paths).all():
        if found.name.startswith(incomplete):
            yield CompletionItem(found.name, help=f"{found.env_id}, {len(found.seeds)} seeds")


@_silently
def servers(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """Those that were reached from here."""
    from gym_gui.services.remote.server import Servers

    for server in Servers(default_root()).all():
        if str(server).startswith(incomplete):
            yield CompletionItem(str(server))


@contextmanager
def _session(ctx: click.Context) -> Iterator[CliSession]:
    """With the daemon that the command line names. One elsewhere is reached without ever asking for a password."""
    given = ctx.find_root().params
    if not given.get("on"):
        yield CliSession.at(given.get("home"))
        return
    from gym_gui.cli.elsewhere import named_server

    session = CliSession.on(named_server(given["on"]), given.get("home"), may_ask=False)
    assert session.elsewhere is not None
    try:
        yield session
    finally:
        session.elsewhere.close()


def _paths_here(ctx: click.Context) -> MosaicPaths | None:
    """The data root of the command line; None where its files are on another machine."""
    given = ctx.find_root().params
    return None if given.get("on") else CliSession.at(given.get("home")).paths


def _begun(words: list[str], incomplete: str) -> str | None:
    """The first way to name a run that goes on from what was typed; ids also in lower case."""
    return next((word for word in words if word.startswith((incomplete, incomplete.upper()))), None)


@_silently
def algorithms(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from mosaic_protocol.worker_manifest import discover

    for worker in discover().workers.values():
        if ctx.params.get("worker") in (None, worker.type):
            for name, algorithm in worker.algorithms.items():
                if name.startswith(incomplete):
                    yield CompletionItem(name, help=algorithm.summary)


@_silently
def environments(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    """The environments that manifests give as examples, those of the chosen algorithm first, then those they list; of
    the workers that offer the algorithm, where one was chosen."""
    from mosaic_protocol.worker_manifest import discover

    algo, chosen = _algorithm(ctx), ctx.params.get("worker")
    found = discover().workers.values()
    able = [one for one in found if chosen in (None, one.type) and (not algo or algo in one.algorithms)]
    workers = able or list(found)  # an algorithm of nobody's, such as a script: whatever there is
    offered = [item for worker in workers for item in worker.algorithms.items()]
    offered.sort(key=lambda item: item[0] != algo)
    listed = [name for worker in workers for family in worker.environments for name in family.ids]
    names = dict.fromkeys([*(one.example_env for _, one in offered if one.example_env), *listed])
    yield from (CompletionItem(name) for name in names if name.startswith(incomplete))


def _algorithm(ctx: click.Context) -> str:
    """The algorithm that was typed. Behind an option that has no value yet click leaves it among the rest."""
    return str(ctx.params.get("algo") or next((word for word in ctx.args if not word.startswith("-")), ""))


def parameters(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Parameters of the chosen algorithm, where its worker describes them by a schema."""
    from mosaic_protocol.settings_schema import as_flags
    from mosaic_protocol.worker_manifest import discover
    from mosaic_protocol.worker_settings import schema_of

    try:
        able = [worker for worker in discover().workers.values() if ctx.params.get("algo") in worker.algorithms]
        flags = [flag for worker in able for flag in as_flags(schema_of(worker) or {})]
    except Exception:  # noqa: BLE001 - nothing may be printed here
        return []
    return [CompletionItem(one["option"], help=one["help"]) for one in flags if one["option"].startswith(incomplete)]


@_silently
def worker_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from mosaic_protocol.worker_manifest import discover

    for worker in discover().workers.values():
        if worker.type.startswith(incomplete):
            yield CompletionItem(worker.type, help=worker.summary)


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What the shell finds itself."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


@_silently
def bundles(ctx: click.Context, param: click.Parameter, incomplete: str) -> Iterator[CompletionItem]:
    from gym_gui.services.trainer.bundles.manager import PROJECT_REQUIREMENTS, bundle_files

    for file in bundle_files(PROJECT_REQUIREMENTS):
        if file.stem.startswith(incomplete):
            yield CompletionItem(file.stem)
