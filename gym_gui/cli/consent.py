"""Asking a person, at the terminal, before a script runs for the first time that is not a worker's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from mosaic_protocol.plain_text import visible

if TYPE_CHECKING:
    from gym_gui.services.script_consent import ForeignScript
    from mosaic_protocol.paths import MosaicPaths
    from mosaic_protocol.worker_manifest import WorkerManifest


def require_consent(
    told: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    manifest: WorkerManifest,
    paths: MosaicPaths,
    *,
    yes: bool,
    may_ask: bool = True,
) -> None:
    """Return when the script of a run may be executed here. Raises :class:`CliError` when nobody allowed it.

    ``told``: the worker's summary of a dry run, None where it was not asked; ``settings``: the worker's own.
    """
    from gym_gui.services.script_consent import ScriptConsents, foreign_script

    try:
        script = foreign_script(told or {}, settings, manifest, paths)
    except OSError as error:
        raise CliError(f"the script {error.filename} cannot be read: {error.strerror}", ExitCode.REFUSED) from error
    consents = ScriptConsents(paths)
    if script is None or consents.allows(script):
        return
    if not yes:
        _ask(script, may_ask=may_ask)
    consents.allow(script)


def _ask(script: ForeignScript, *, may_ask: bool) -> None:
    file = visible(str(script.file))  # its name is part of the question, and may try to hide it
    if not may_ask or not sys.stdin.isatty():
        raise CliError(
            f"{file} has not run here before (sha256 {script.short_hash}…), and nobody can be asked: "
            "look at it, then add --yes to allow it",
            ExitCode.REFUSED,
        )
    told = [("file", file), ("sha256", script.sha256), ("command", visible(script.command))]
    click.echo("A script that is not the worker's own runs here for the first time:", err=True)
    click.echo(fmt.pairs(told), err=True)
    click.echo("It may do on this machine whatever you may. You are asked again when the file changes.", err=True)
    if not click.confirm("Run it?", err=True):
        raise CliError("nothing was started", ExitCode.REFUSED)
