"""The reference of the command line is complete: every command, option, exit code, variable and field is in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from gym_gui.cli.errors import ExitCode
from gym_gui.cli.main import mosaic
from gym_gui.cli.run_view import run_object
from gym_gui.tests.support.command_line import PROJECT
from mosaic_protocol.proto import trainer_pb2 as pb

REFERENCE = (PROJECT / "docs" / "reference" / "cli.md").read_text()


def commands(group: click.Group, path: str = "mosaic") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(mosaic))


def section(path: str) -> str:
    """The part of the reference that is about a command: from its heading, or its group's, to the next."""
    top = " ".join(path.split()[:2])
    found = re.search(rf"^### .*`{re.escape(top)}[ `].*?(?=^##)", REFERENCE, re.DOTALL | re.MULTILINE)
    assert found, f"docs/reference/cli.md has no section about `{top}`"
    return found[0]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_documented_with_all_its_options(path: str) -> None:
    text = section(path)
    assert re.search(rf"`{re.escape(path)}[ `]", text)
    options = [name for one in COMMANDS[path].params if isinstance(one, click.Option) for name in one.opts]
    assert [name for name in options if not re.search(rf"`{name}[ `]", text)] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_a_help_that_begins_with_one_short_line(path: str) -> None:
    first = (COMMANDS[path].help or "").splitlines()[0]
    assert 10 < len(first) < 85
    assert first.endswith(".")


def test_no_documented_command_is_missing() -> None:
    documented = set(re.findall(r"`(mosaic [a-z][a-z-]*)", REFERENCE)) - {"mosaic --help"}
    assert documented <= set(COMMANDS)


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_documented(code: ExitCode) -> None:
    assert f"| {int(code)} | `{code.name.lower()}` |" in REFERENCE


def test_every_field_of_a_run_is_documented() -> None:
    table = REFERENCE.partition("## The run object")[2].partition("\n## ")[0]
    assert [name for name in run_object(pb.Run()) if f"`{name}`" not in table] == []


def test_the_commands_of_the_page_about_sweeps_are_understood() -> None:
    page = (PROJECT / "docs" / "how-to" / "sweep.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        context = mosaic.make_context("mosaic", words, resilient_parsing=True)
        group = COMMANDS["mosaic sweep"]
        assert isinstance(group, click.Group)
        _, command, rest = group.resolve_command(context, words[1:])
        assert command is not None
        taken = command.make_context(command.name, rest if command.name != "start" else words[1:])
        assert "script_flags" not in taken.params or not taken.params["script_flags"], (
            f"an option of {line!r} is unknown"
        )
