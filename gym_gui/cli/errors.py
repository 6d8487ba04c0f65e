"""How the command line fails: the exit codes, one sentence on stderr, one JSON object on stdout for ``--json``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import click

from gym_gui.services.trainer.errors import RefusedError, TrainerError
from mosaic_protocol.plain_text import clean_line, one_line
from mosaic_protocol.states import Outcome

DEBUG_VARIABLE = "MOSAIC_DEBUG"
HOME_OPTION = "--home"
_NO_SUCH_HOME = "Could not determine home directory"
"""How pathlib begins when it meets ``~somebody``."""


class ExitCode(IntEnum):
    """What scripts can rely on."""

    OK = 0
    FAILED = 1
    REFUSED = 2
    NO_SUCH_RUN = 3
    DAEMON_AWAY = 4
    CANCELED = 5
    TIMED_OUT = 6
    LOST = 7
    WITHIN_NOISE = 8
    DIFFERENT = 9
    INTERRUPTED = 130
    PIPE_CLOSED = 141


_OUTCOMES = {
    Outcome.COMPLETED: ExitCode.OK,
    Outcome.FAILED: ExitCode.FAILED,
    Outcome.CANCELED: ExitCode.CANCELED,
    Outcome.TIMED_OUT: ExitCode.TIMED_OUT,
    Outcome.LOST: ExitCode.LOST,
}

# The names of gRPC statuses, as text so that gRPC need not be imported to look at an error.
_STATUSES = {
    "NOT_FOUND": ExitCode.NO_SUCH_RUN,
    "INVALID_ARGUMENT": ExitCode.REFUSED,
    "FAILED_PRECONDITION": ExitCode.REFUSED,
    "UNAUTHENTICATED": ExitCode.REFUSED,
    "PERMISSION_DENIED": ExitCode.REFUSED,
    "UNAVAILABLE": ExitCode.DAEMON_AWAY,
}


class CliError(Exception):
    """A failure with its exit code; ``str()`` is a sentence for a person, ``facts`` go into the JSON object."""

    def __init__(self, sentence: str, code: ExitCode, **facts: Any) -> None:
        super().__init__(sentence)
        self.code = code
        self.facts = facts

    def as_json(self) -> dict[str, Any]:
        return {"message": str(self), "kind": self.code.name.lower(), "exit_code": int(self.code), **self.facts}


def code_for_outcome(outcome: str) -> ExitCode:
    """The exit code of a run that is over; an outcome that a newer daemon invented is a failure."""
    try:
        return _OUTCOMES[Outcome(outcome)]
    except ValueError:
        return ExitCode.FAILED


def translated(error: Exception) -> CliError | None:
    """A failure that was to be expected, in our words; None for a bug."""
    # Here, because every command imports this module and few have to do with checkpoints.
    from gym_gui.services.arena.errors import ArenaError
    from gym_gui.services.checkpoints import CheckpointsError, UnknownCheckpointError
    from gym_gui.services.datasets import DatasetsError, UnknownDatasetError
    from gym_gui.services.worker_tools import ToolError, ToolRefusedError
    from mosaic_protocol.events import RecordError
    from mosaic_protocol.steps.chunk import ChunkError
    from mosaic_protocol.steps.recordings import RecordingError

    match error:
        case CliError():
            return error
        case click.UsageError():
            return CliError(_usage_sentence(error), ExitCode.REFUSED)
        case click.ClickException():
            return CliError(error.format_message(), ExitCode.FAILED)
        case UnknownCheckpointError() | UnknownDatasetError():
            return CliError(str(error), ExitCode.NO_SUCH_RUN)
        case ToolRefusedError(excerpt=excerpt) if excerpt:
            return CliError(str(error), ExitCode.REFUSED, excerpt=list(excerpt))
        case RefusedError() | ArenaError() | CheckpointsError() | DatasetsError() | ToolRefusedError():
            return CliError(str(error), ExitCode.REFUSED)
        case ToolError() | RecordingError() | ChunkError() | RecordError():
            return CliError(str(error), ExitCode.FAILED)
        case TrainerError():
            return _translated_call(error, getattr(error, "status", ""))
        case UnicodeEncodeError() if "surrogates" in error.reason:
            return CliError(f"{error.object[:60]!r} is not text: it must be UTF-8", ExitCode.REFUSED)
        case RuntimeError() if str(error).startswith(_NO_SUCH_HOME):
            return CliError("a path begins with the home of a user who is not known here", ExitCode.REFUSED)
    return None


def _translated_call(error: TrainerError, status: str) -> CliError:
    if status == "DEADLINE_EXCEEDED":
        return CliError("the trainer daemon does not answer: see `mosaic daemon status`", ExitCode.DAEMON_AWAY)
    return CliError(str(error), _STATUSES.get(status, ExitCode.FAILED))


def _usage_sentence(error: click.UsageError) -> str:
    command = error.ctx.command_path if error.ctx is not None else "mosaic"
    match error:
        case click.NoSuchCommand():
            return f"there is no command {error.command_name!r}{_near(error.possibilities, command)}"
        case click.NoSuchOption() if error.option_name == HOME_OPTION:
            return stands_before(command)
        case click.NoSuchOption():
            return f"there is no option {error.option_name!r}{_near(error.possibilities, command)}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if message[:2].istitle():
        message = message[0].lower() + message[1:]
    return f"{message}. See `{command} --help`."


def stands_before(command: str) -> str:
    """What to say of the program's own option behind a command."""
    program, _, rest = command.partition(" ")
    return f"{HOME_OPTION} stands before the command: `{program} {HOME_OPTION} DIR {rest}`"


def _near(possibilities: Sequence[str] | None, command: str) -> str:
    return f"; did you mean {possibilities[0]!r}?" if possibilities else f"; `{command} --help` lists what there is"


def report(error: CliError, *, as_json: bool) -> int:
    """Tell a failure; its exit code. Raises OSError when stdout cannot be written to."""
    with suppress(OSError):  # the exit code says it as well
        click.echo(f"mosaic: {one_line(str(error))}", err=True)
        for line in error.facts.get("excerpt", ()):
            click.echo(f"  {clean_line(line)}", err=True)
    if as_json:
        click.echo(json.dumps({"error": error.as_json()}))
    return int(error.code)


def report_crash(error: Exception, home: Path, *, as_json: bool) -> int:
    """Report a bug in one sentence and keep the traceback where it can be found."""
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        traceback.print_exception(error)
    file = _keep_traceback(error, home)
    where = f"the details are in {file}" if file else f"set {DEBUG_VARIABLE}=1 to see the details"
    sentence = f"this should not have happened ({type(error).__name__}): {where}"
    return report(CliError(sentence, ExitCode.FAILED), as_json=as_json)


def _keep_traceback(error: Exception, home: Path) -> Path | None:
    """Write a crash file below the data root, else where temporary files go. It holds no command line: that may
    carry what nobody should store."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    text = f"Python {sys.version}\n\n{''.join(traceback.format_exception(error))}"
    for folder in (home / "logs" / "cli", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"mosaic-crash-{stamp}-{os.getpid()}.txt"
            with file.open("x", encoding="utf-8", errors="backslashreplace") as kept:  # others may write there, too
                kept.write(text)
            return file
        except OSError:
            continue
    return None


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` was asked for, also on a command line that cannot be parsed. What follows ``--`` is the
    script's."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own
