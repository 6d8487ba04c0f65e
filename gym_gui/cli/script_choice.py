"""Which script trains: an algorithm of a worker's own, upstream CleanRL's of that name, or a file of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gym_gui.cli import candidates
from gym_gui.cli.errors import CliError, ExitCode

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import Discovery, WorkerManifest

UPSTREAM_BUNDLE = "cleanrl_upstream"
"""Upstream's scripts need libraries that are years older than those of any worker."""

F = TypeVar("F", bound=Callable[..., Any])


def script_options(function: F) -> F:
    """The options that say which script, for every command that is about one."""
    for option in (
        click.option(
            "--bundle",
            metavar="B",
            help="Run the script in this bundle's environment.",
            shell_complete=candidates.bundles,
        ),
        click.option(
            "--script",
            metavar="FILE",
            help="A training script of your own instead of ALGO.",
            shell_complete=candidates.files,
        ),
        click.option(
            "--cleanrl-path",
            metavar="DIR",
            help="Upstream's script from this CleanRL checkout.",
            shell_complete=candidates.folders,
        ),
        click.option("--upstream", is_flag=True, help="Upstream CleanRL's script of ALGO, unmodified, not ours."),
        click.option("--worker", metavar="W", help="Which of several workers.", shell_complete=candidates.worker_types),
    ):
        function = option(function)
    return function


@dataclass(frozen=True)
class ScriptChoice:
    """What was asked for on the command line."""

    algo: str = ""
    worker: str | None = None
    upstream: bool = False
    cleanrl_path: str | None = None
    script: str | None = None
    bundle: str | None = None

    @property
    def is_foreign(self) -> bool:
        return bool(self.upstream or self.cleanrl_path or self.script)

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.script).stem if self.script else self.algo

    @property
    def environment(self) -> str | None:
        """The bundle that the script runs in; None for the worker's own."""
        upstream = self.upstream or self.cleanrl_path
        return self.bundle or (UPSTREAM_BUNDLE if upstream else None)

    def settings(self) -> dict[str, Any]:
        """Its part of the worker's config. Raises :class:`CliError` for paths that lead nowhere."""
        if self.script:
            return {"script": _existing(self.script, "--script", Path.is_file, "file")}
        found: dict[str, Any] = {"algo": self.algo}
        if self.cleanrl_path:
            found["cleanrl_path"] = _existing(self.cleanrl_path, "--cleanrl-path", Path.is_dir, "folder")
        return {**found, "source": "cleanrl"} if self.upstream or self.cleanrl_path else found


def choose_worker(found: Discovery, choice: ScriptChoice) -> WorkerManifest:
    """The one worker that can run it. Raises :class:`CliError` when none or several can."""
    _require_one_script(choice)
    if not found.workers:
        raise CliError(_no_workers(found), ExitCode.FAILED)
    asked = _asked(found, choice.worker)
    if choice.is_foreign:
        offering = [manifest for manifest in asked if manifest.capabilities.foreign_scripts]
        if not offering:
            raise CliError("no worker here runs scripts that are not its own", ExitCode.REFUSED)
    else:
        offering = [manifest for manifest in asked if choice.algo in manifest.algorithms]
        if not offering:
            raise CliError(_unknown_algorithm(choice.algo, asked, choice.worker), ExitCode.REFUSED)
    if len(offering) > 1:
        choices = " and ".join(f"--worker {manifest.type}" for manifest in offering)
        raise CliError(f"several workers offer {choice.name!r}: choose between {choices}", ExitCode.REFUSED)
    return offering[0]


def _require_one_script(choice: ScriptChoice) -> None:
    if choice.script and (choice.algo or choice.upstream or choice.cleanrl_path):
        raise CliError("--script names the script: leave out the algorithm and where it is from", ExitCode.REFUSED)
    if not choice.script and not choice.algo:
        ctx = click.get_current_context(silent=True)
        command = ctx.command_path if ctx is not None else "mosaic train"
        raise CliError(f"missing argument 'ALGO'. See `{command} --help`.", ExitCode.REFUSED)
    if choice.algo.startswith("-"):
        raise CliError("name the algorithm first, as in `mosaic train ppo --env-id CartPole-v1`", ExitCode.REFUSED)


def _asked(found: Discovery, worker: str | None) -> list[WorkerManifest]:
    from mosaic_protocol.suggest import did_you_mean

    if worker is None:
        return list(found.workers.values())
    if worker not in found.workers:
        raise CliError(f"there is no worker {worker!r}{did_you_mean(worker, found.workers)}", ExitCode.REFUSED)
    return [found.workers[worker]]


def _no_workers(found: Discovery) -> str:
    why = f" ({'; '.join(found.problems)})" if found.problems else ""
    return f"no worker is installed{why}: install one, or name its folder in MOSAIC_WORKER_PATH"


def _unknown_algorithm(algo: str, asked: list[WorkerManifest], worker: str | None) -> str:
    from mosaic_protocol.suggest import nearest

    known = sorted({name for manifest in asked for name in manifest.algorithms})
    where = f" in the worker {worker!r}" if worker is not None else ""
    near = nearest(algo, known)
    hint = f"; did you mean {near!r}?" if near else "."
    if not known:
        return f"there is no algorithm {algo[:60]!r}{where}; it offers none"
    return f"there is no algorithm {algo[:60]!r}{where}{hint} Choose from: {', '.join(known)}."


def _existing(text: str, option: str, exists: Callable[[Path], bool], noun: str) -> str:
    path = Path(text).expanduser().absolute()
    if not exists(path):
        raise CliError(f"{option}: there is no {noun} {text[:200]}", ExitCode.REFUSED)
    return str(path)
