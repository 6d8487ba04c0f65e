"""``mosaic import-checkpoint``: a policy that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.options import json_option
from gym_gui.cli.session import CliSession, passing_notice, program


@click.command("import-checkpoint")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--algo", metavar="A", required=True, help="What it was trained with.", shell_complete=candidates.algorithms
)
@click.option(
    "--env-id", metavar="E", required=True, help="What it was trained on.", shell_complete=candidates.environments
)
@click.option("--name", metavar="NAME", help="What to call it.  [default: after the file]")
@json_option
@click.pass_obj
def import_checkpoint(session: CliSession, file: Path, algo: str, env_id: str, name: str | None, as_json: bool) -> None:
    """Make a checkpoint from parameters that others saved.

    FILE is a state dict: what torch.save wrote, under any name, or .safetensors. Nothing in it is run:
    a pickle that needs more than tensors and plain values is refused. The result can be evaluated and warm-start runs.
    """
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.checkpoints.use import import_file, import_name, imported_before, tool_for

    tool_for("import_file", algo)
    same = imported_before(file, algo, env_id, session.paths)
    known = None if name else same
    told: dict[str, Any] = {}
    if known is None:
        called = import_name(file, name, session.paths)
        with passing_notice("reading the file…"):
            told = import_file(file, algo, env_id, called, session.paths)
    entry = TrainingRegistry(session.paths).find(known or called)
    if as_json:
        fmt.echo_json({**entry.to_json(), "imported_before": known is not None})
        return
    called_file = fmt.one_line(file.name)
    if known is not None:
        click.echo(f"{called_file} was imported before, as {entry.id}")
    else:
        click.echo(f"{entry.id} holds the {told['parameters']:,} parameters of {called_file} for {algo} on {env_id}")
        if fresh := entry.lineage.get("fresh"):
            missing = fmt.one_line(" and no ".join(fresh))
            click.echo(f"  It has no {missing}: a warm start begins with new ones.")
        for note in entry.lineage.get("notes", []):
            click.echo(f"  {fmt.one_line(note)}")
    click.echo(f"Try `{program()} eval {entry.id}`.")
