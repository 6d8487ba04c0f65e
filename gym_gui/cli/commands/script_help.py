"""The flags of a training script, asked of its worker, which reads them without running the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError
from gym_gui.cli.options import json_option
from gym_gui.cli.script_choice import ScriptChoice, ScriptCommand, worker_option, workers_here
from gym_gui.cli.session import CliSession
from mosaic_protocol.plain_text import visible

if TYPE_CHECKING:
    from mosaic_protocol.paths import MosaicPaths

_NAMES = {"warm_start": "warm start"}


def describe_script(choice: ScriptChoice, paths: MosaicPaths) -> dict[str, Any]:
    """``{algo, script, flags: […], capabilities: {…}}``. Raises :class:`CliError` and :class:`ToolError`."""
    from gym_gui.services.worker_queries import WorkerQueries

    script = choice.chosen(workers_here())
    return WorkerQueries(paths).describe_flags(script.manifest.type, script.settings(), script.bundle)


def flags_text(told: dict[str, Any]) -> str:
    """The flags, and what can be done with a run of the script, for people."""
    flags = [(one["option"], _told(one)) for one in told["flags"]]
    able = [(_NAMES.get(name, name), _spoken(one)) for name, one in told["capabilities"].items()]
    heading = f"Flags of {told['script'] or told['algo']}:"
    listed = fmt.pairs(flags) if flags else "  None that can be read from its source; whatever is given is passed on."
    return "\n".join([heading, listed, "", "What can be done with its runs:", fmt.pairs(able)])


def _told(flag: dict[str, Any]) -> str:
    default = "required" if flag["required"] else f"default: {_shown(flag['default'])}"
    choices = f", one of {', '.join(map(str, flag['choices']))}" if flag["choices"] else ""
    return visible(f"{flag['help'] or '–'}  [{flag['type']}{choices}, {default}]")


def _shown(value: Any) -> str:
    return "none" if value is None or value == "" else str(value)


def _spoken(capability: dict[str, Any]) -> str:
    return f"{'yes' if capability['offered'] else 'no'}: {capability['why']}"


class ScriptHelpCommand(ScriptCommand):
    """A command whose help ends with the flags of the script that was named on its command line."""

    _WORDS = "gym_gui.cli.words"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[self._WORDS] = list(args)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        text = super().get_help(ctx)
        choice = self._choice(ctx)
        if choice is None:
            return text
        from gym_gui.services.worker_tools import ToolError

        try:
            return f"{text}\n\n{flags_text(describe_script(choice, ctx.obj.paths))}"
        except (CliError, ToolError) as error:
            sentence = str(error)
            return f"{text}\n\n{sentence[:1].upper()}{sentence[1:].removesuffix('.')}."

    def _choice(self, ctx: click.Context) -> ScriptChoice | None:
        """The script as far as it was named; None when it was not."""
        words = [word for word in ctx.meta.get(self._WORDS, ()) if word not in ctx.help_option_names]
        try:
            given, _, _ = self.make_parser(ctx).parse_args(words)
        except click.UsageError:
            return None
        choice = ScriptChoice.of({name: value for name, value in given.items() if isinstance(value, str | bool)})
        return choice if (choice.algo or choice.given) and not choice.algo.startswith("-") else None


@click.command(cls=ScriptCommand)
@click.argument("algo", required=False, default="", shell_complete=candidates.algorithms)
@worker_option
@json_option
@click.pass_obj
def flags(session: CliSession, /, as_json: bool, **choice: Any) -> None:
    """Show the flags of a training script.

    They are read from its source; nothing of it is run. Ends with what can be done with its runs: metrics, pause, stop,
    checkpoint, warm start, resume.
    """
    told = describe_script(ScriptChoice.of(choice), session.paths)
    if as_json:
        fmt.echo_json(told)
    else:
        click.echo(flags_text(told))
