"""The ``mosaic`` command: its commands, and what becomes of whatever goes wrong in them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.shell_completion import shell_complete

from gym_gui.cli import candidates, out_file, output
from gym_gui.cli.commands import control, labels, runs
from gym_gui.cli.commands.archive import export, import_archive
from gym_gui.cli.commands.arena import arena
from gym_gui.cli.commands.bundles import bundles
from gym_gui.cli.commands.checkpoints import checkpoints
from gym_gui.cli.commands.compare import compare
from gym_gui.cli.commands.completion import PROGRAM, VARIABLE, completion
from gym_gui.cli.commands.daemon import daemon
from gym_gui.cli.commands.datasets import datasets
from gym_gui.cli.commands.diff import diff
from gym_gui.cli.commands.doctor import doctor
from gym_gui.cli.commands.evaluate import evaluate, policy
from gym_gui.cli.commands.follow import follow
from gym_gui.cli.commands.hosts import hosts
from gym_gui.cli.commands.import_checkpoint import import_checkpoint
from gym_gui.cli.commands.import_logs import import_logs
from gym_gui.cli.commands.logs import logs
from gym_gui.cli.commands.metrics import metrics
from gym_gui.cli.commands.mind import mind
from gym_gui.cli.commands.play import play, watch
from gym_gui.cli.commands.plot import plot
from gym_gui.cli.commands.presets import presets
from gym_gui.cli.commands.queue import queue
from gym_gui.cli.commands.replay import replay
from gym_gui.cli.commands.reproduce import reproduce
from gym_gui.cli.commands.script_help import flags
from gym_gui.cli.commands.steps import episodes, steps
from gym_gui.cli.commands.storage import storage
from gym_gui.cli.commands.submit import submit
from gym_gui.cli.commands.sweep import sweep
from gym_gui.cli.commands.tell import tell
from gym_gui.cli.commands.tensorboard import tensorboard
from gym_gui.cli.commands.train import train
from gym_gui.cli.commands.wandb import wandb
from gym_gui.cli.commands.workers import workers
from gym_gui.cli.errors import HOME_OPTION, CliError, ExitCode, report, report_crash, translated, wants_json
from gym_gui.cli.options import PlainGroup, help_when_alone
from gym_gui.cli.session import CliSession
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.storage import private_files

_SESSION = "gym_gui.cli.session"


class _MosaicGroup(PlainGroup):
    """Sends a command to the machine that ``--on`` names, where it has to run there."""

    def invoke(self, ctx: click.Context) -> Any:
        words = [*ctx._protected_args, *ctx.args]
        if not ctx.params.get("on") or not words or words[0] not in self.commands:
            return super().invoke(ctx)
        from gym_gui.cli import elsewhere

        name, rest = words[0], words[1:]
        way = elsewhere.way_of(name, rest)
        if way is elsewhere.Way.HERE:
            return super().invoke(ctx)
        server = elsewhere.named_server(ctx.params["on"])
        session = CliSession.on(server, ctx.params["home"], may_ask=elsewhere.may_ask())
        assert session.elsewhere is not None
        ctx.call_on_close(session.elsewhere.close)
        ctx.meta[_SESSION] = session
        if way is elsewhere.Way.THROUGH:
            try:
                return super().invoke(ctx)
            finally:  # what follows a run mostly ends with Ctrl-C
                elsewhere.tell_versions(session.elsewhere)
        return elsewhere.Elsewhere(server, ctx.params["home"] or "", session).run(self.commands[name], rest, way)


@click.group(cls=_MosaicGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    HOME_OPTION,
    metavar="DIR",
    help="Data root.  [default: MOSAIC_HOME, var/ of a checkout, or ~/.mosaic]",
    shell_complete=candidates.folders,
)
@click.option(
    "--on",
    metavar="SERVER",
    envvar="MOSAIC_ON",
    help="Speak to the daemon of another machine, through SSH: USER@HOST, or USER@HOST:/path/to/checkout. --home is "
    "a folder over there then.  [default: MOSAIC_ON, or this machine]",
    shell_complete=candidates.servers,
)
@click.version_option(VERSION, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def mosaic(ctx: click.Context, home: str | None, on: str | None) -> None:
    """Launch, supervise and watch reinforcement-learning runs.

    A run is named by its id, the beginning or end of it, its name, or "last" for the newest. The trainer daemon is
    started when a command needs it.
    """
    ctx.obj = ctx.meta.get(_SESSION) or CliSession.at(None if on else home)
    help_when_alone(ctx)


@click.command()
@click.pass_context
def gui(ctx: click.Context) -> None:
    """Open the cockpit, a window on all runs.

    It starts the daemon when none runs. Closing it leaves the runs running. With --on it is a window on another
    machine's.
    """
    session: CliSession = ctx.obj
    on, home = ctx.find_root().params["on"], ctx.find_root().params["home"]
    if find_spec("PyQt6") is None or find_spec("pyqtgraph") is None:
        sentence = "the cockpit needs PyQt6: run `make gui` in the checkout, which installs it and opens the cockpit"
        raise CliError(sentence, ExitCode.FAILED)
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.environ.get("QT_QPA_PLATFORM")):
        sentence = "there is no screen here (neither DISPLAY nor WAYLAND_DISPLAY is set)"
        raise CliError(f"{sentence}: `mosaic runs` and `mosaic follow` show runs on a terminal", ExitCode.FAILED)
    # In place of this process: the command line stays free of Qt.
    command = [sys.executable, "-m", "gym_gui.ui", *_window_on(on, home)]
    private_files.as_before()  # the cockpit also installs packages and writes what people export
    environment = {name: value for name, value in os.environ.items() if name != "MOSAIC_ON"}  # its tools are of here
    os.execve(command[0], command, {**environment, "MOSAIC_HOME": str(session.paths.root)})


def _window_on(on: str | None, home: str | None) -> list[str]:
    """The words that open it on another machine. Raises :class:`CliError` for what names none."""
    if not on:
        return []
    from gym_gui.cli.elsewhere import named_server

    return ["--on", str(named_server(on)), *(["--home", home] if home else [])]


for _command in (
    train,
    submit,
    sweep,
    play,
    watch,
    follow,
    runs.runs,
    runs.show,
    diff,
    compare,
    arena,
    reproduce,
    logs,
    metrics,
    plot,
    tensorboard,
    wandb,
    episodes,
    steps,
    mind,
    tell,
    replay,
    datasets,
    control.pause,
    control.resume,
    control.cancel,
    control.delete,
    control.restore,
    queue,
    labels.rename,
    labels.tag,
    labels.note,
    checkpoints,
    evaluate,
    import_checkpoint,
    import_logs,
    export,
    import_archive,
    storage,
    policy,
    flags,
    presets,
    workers,
    bundles,
    hosts,
    doctor,
    daemon,
    completion,
    gui,
):
    mosaic.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code. Nothing is raised and no traceback is printed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    output.prepare()
    try:
        code = _told(words)
        sys.stdout.flush()
        return code
    except OSError as error:
        return output.give_up(error)
    except KeyboardInterrupt:  # a second one, while the first was reported
        return ExitCode.INTERRUPTED
    finally:
        output.forget_what_waits()


def _told(words: list[str]) -> int:
    """Run a command line and print what went wrong in it; the exit code. Raises OSError when printing fails."""
    as_json = wants_json(words)
    try:
        return _run(words)
    except (KeyboardInterrupt, click.Abort):
        return report(CliError("interrupted", ExitCode.INTERRUPTED), as_json=as_json)
    except Exception as error:
        if why := output.failure(error):
            raise why from error
        known = translated(error)
        if known is not None:
            return report(known, as_json=as_json)
        return report_crash(error, _data_root(words), as_json=as_json)


def _run(words: list[str]) -> int:
    """What click's own ``main`` does, which would answer a closed pipe with the exit code of a failed run."""
    if instruction := os.environ.get(VARIABLE):
        return shell_complete(mosaic, {}, PROGRAM, VARIABLE, instruction)
    try:
        with mosaic.make_context(PROGRAM, list(words)) as context:
            context.meta[out_file.WORDS] = words
            answer = mosaic.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return int(answer) if isinstance(answer, int) else ExitCode.OK


def _data_root(words: list[str]) -> Path:
    """Where the command line that failed keeps its data."""
    given = words.index(HOME_OPTION) + 1 if HOME_OPTION in words else len(words)
    try:
        return CliSession.at(words[given] if given < len(words) else None).paths.root
    except CliError:  # that was the failure, or not even it was reached
        return Path(tempfile.gettempdir())
