"""``mosaic presets``: settings that ship with workers, and how they were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.options import json_option
from gym_gui.cli.session import program

if TYPE_CHECKING:
    from mosaic_protocol.worker_presets import Preset


@click.command()
@json_option
def presets(as_json: bool) -> None:
    """List the settings that ship with workers.

    Each was found by a sweep and measured beside the default settings, on seeds that the sweep never saw.
    """
    from mosaic_protocol.worker_manifest import discover
    from mosaic_protocol.worker_presets import presets_of

    answers = {kind: presets_of(manifest) for kind, manifest in sorted(discover().workers.items())}
    problems = [problem for _, wrong in answers.values() for problem in wrong]
    if as_json:
        listed = [
            {"worker": kind, **one.model_dump(mode="json")} for kind, (found, _) in answers.items() for one in found
        ]
        fmt.echo_json({"presets": listed, "problems": problems})
        return
    click.echo(
        "\n\n".join(_described(one) for found, _ in answers.values() for one in found) or "No worker has presets."
    )
    for problem in problems:
        click.echo(f"mosaic: {fmt.one_line(problem)}", err=True)


def _described(preset: Preset) -> str:
    """A command stays on one line, so that it can be copied from a terminal."""
    settings = ", ".join(f"{name}={_short(value)}" for name, value in preset.settings.items())
    lines = [
        f"{program()} train {preset.algo} --env-id {preset.env_id} --preset {preset.name}",
        "  " + fmt.hanging(fmt.one_line(f"{preset.total_timesteps:,} steps, {settings}"), 2),
        "  " + fmt.dimmed(fmt.hanging(fmt.one_line(str(preset.evidence)), 2)),
    ]
    return "\n".join(lines)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
