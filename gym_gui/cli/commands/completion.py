"""``mosaic completion``: the script that teaches a shell to complete ``mosaic``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gym_gui.cli.errors import CliError, ExitCode

PROGRAM = "mosaic"
VARIABLE = "_MOSAIC_COMPLETE"


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: mosaic completion bash > ~/.local/share/bash-completion/completions/mosaic
    zsh:  mosaic completion zsh > "${fpath[1]}/_mosaic"
    fish: mosaic completion fish > ~/.config/fish/completions/mosaic.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise CliError(f"there is no completion for {shell}", ExitCode.FAILED)
    maker = kind(ctx.find_root().command, {}, PROGRAM, VARIABLE)
    click.echo(maker.source_template % maker.source_vars())
