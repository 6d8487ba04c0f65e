"""``--out FILE``, ``--force`` and ``--open``: what commands share that write charts and reports."""

from __future__ import annotations

import os
import shlex
import webbrowser
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.session import shortest_path

F = TypeVar("F", bound=Callable[..., Any])

INSTALL = "python -m mosaic_worker.extras --set charts"

WORDS = "gym_gui.cli.words"
"""Under this name every command finds the words of its command line in click's context."""

force_option = click.option("--force", is_flag=True, help="With --out: also over a file that is there.")
open_option = click.option("--open", "opens", is_flag=True, help="With --out: open the file when it is written.")


def out_option(help_text: str) -> Callable[[F], F]:
    return click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help=help_text)


def command_line() -> str:
    """What was typed, for a report that says how it was made."""
    return shlex.join(["mosaic", *click.get_current_context().meta.get(WORDS, ())])


def require_numpy(what: str) -> None:
    """The base install is light: it has none."""
    if find_spec("numpy") is None:
        raise CliError(f"{what} need NumPy, which is not installed here: `{INSTALL}` installs it", ExitCode.REFUSED)


def require_place(file: Path, formats: Sequence[str], *, force: bool, option: str = "--out") -> None:
    """Refuse a place before anything is computed for it."""
    if problem := _why_not_there(file, formats, force=force):
        raise CliError(f"{option}{problem}", ExitCode.REFUSED)
    if file.suffix.lower() == ".png":
        from gym_gui.services.charts.png import NoPngError, require_png

        try:
            require_png()
        except NoPngError as error:
            raise CliError(str(error), ExitCode.REFUSED) from error


def _why_not_there(file: Path, formats: Sequence[str], *, force: bool) -> str:
    """What stands behind the option's name in a refusal; empty where something can be written."""
    if not file.name.lower().endswith(tuple(formats)) or file.name.lower() in formats:
        return f" must end in {', '.join(formats[:-1])} or {formats[-1]}, got {file.name!r}"
    if not file.parent.is_dir():
        return f": there is no folder {file.parent}: make it, or name another"
    if file.is_dir():
        return f": {file} is a folder: name a file"
    if file.exists() and not force:
        return f": {file} is there already: give another name, or --force to write over it"
    return ""


def put(file: Path, content: bytes, *, opens: bool, quiet: bool) -> None:
    """Write the file and say so; on stderr where stdout is for a program."""
    from gym_gui.services.charts.files import write

    try:
        write(file, content)
    except OSError as error:
        sentence = f"cannot write {file}: {error.strerror or error}"
        raise CliError(sentence, ExitCode.FAILED) from error
    click.echo(f"Written to {shortest_path(file)}", err=quiet)
    if opens:
        _open(file)


def _open(file: Path) -> None:
    """In the person's browser. Where there is no screen a text browser would take the terminal."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_screen or not webbrowser.open(file.absolute().as_uri()):
        click.echo(f"mosaic: no browser was found here: open {shortest_path(file)} on another machine", err=True)
