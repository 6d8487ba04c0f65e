"""Which script trains, as it is said on the command line: an algorithm, and the choices that manifests declare."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.services.script_choice import ChosenScript, option_of

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import Choice, Discovery, WorkerManifest

_FOUND = "gym_gui.cli.workers"
_COMPLETERS = {"file": candidates.files, "folder": candidates.folders, "bundle": candidates.bundles}
_METAVARS = {"file": "FILE", "folder": "DIR", "bundle": "B", "text": "TEXT"}

worker_option = click.option(
    "--worker", metavar="W", help="Which of several workers.", shell_complete=candidates.worker_types
)


def workers_here(ctx: click.Context | None = None) -> Discovery:
    """The workers that are installed, looked for once in a command line."""
    from mosaic_protocol.worker_manifest import discover

    ctx = ctx or click.get_current_context(silent=True)
    if ctx is None:
        return discover()
    found: Discovery = ctx.meta.setdefault(_FOUND, None) or discover()
    ctx.meta[_FOUND] = found
    return found


class ScriptCommand(click.Command):
    """A command about a script: behind ``--worker`` it has an option for every choice that a manifest declares.

    Of two workers that declare an option of the same name the first says what it looks like, and an option of the
    command itself comes before both.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        at = next(index for index, one in enumerate(params) if one.name == "worker") + 1
        own = {word for one in params for word in one.opts} | {one.name for one in params}
        return [*params[:at], *_choice_options(workers_here(ctx), own), *params[at:]]


def _choice_options(found: Discovery, own: Collection[str | None]) -> list[click.Parameter]:
    options: dict[str, click.Parameter] = {}
    for manifest in found.workers.values():
        for name, choice in manifest.choices.items():
            option = option_of(name, choice)
            # One option, one meaning: that of the worker that comes first, which is MOSAIC's own where it has one.
            taken = name not in options and any(option in one.opts for one in options.values())
            if name not in own and option not in own and not taken:
                options.setdefault(name, _choice_option(name, choice))
    return list(options.values())


def _choice_option(name: str, choice: Choice) -> click.Option:
    words = [option_of(name, choice), name]
    if choice.kind == "switch":
        return click.Option(words, is_flag=True, help=choice.help)
    metavar = choice.metavar or _METAVARS[choice.kind]
    return click.Option(words, metavar=metavar, help=choice.help, shell_complete=_COMPLETERS.get(choice.kind))


@dataclass(frozen=True)
class ScriptChoice:
    """What was asked for on the command line; ``given``: choices by their names."""

    algo: str = ""
    worker: str | None = None
    given: Mapping[str, str | bool] = field(default_factory=dict)

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> ScriptChoice:
        """From the parameters of a command, of which those that are no choice of any worker's are left out."""
        names = {name for manifest in workers_here().workers.values() for name in manifest.choices}
        given = {name: value for name, value in params.items() if name in names and value}
        return cls(params.get("algo") or "", params.get("worker"), given)

    def chosen(self, found: Discovery) -> ChosenScript:
        """The script, with the one worker that can run it. Raises :class:`CliError` when none or several can, and for
        paths that lead nowhere."""
        manifest = _worker_for(self, found)
        given = {**self.given, **_from_environment(manifest, self.given)}
        script = ChosenScript(manifest, self.algo, given)
        _require_one_script(script)
        paths = {name: _existing(name, choice, str(given[name])) for name, choice in _paths(script)}
        return ChosenScript(script.manifest, self.algo, {**given, **paths})


def _worker_for(choice: ScriptChoice, found: Discovery) -> WorkerManifest:
    if not found.workers:
        raise CliError(_no_workers(found), ExitCode.FAILED)
    asked = _asked(found, choice.worker)
    able = [manifest for manifest in asked if all(name in manifest.choices for name in choice.given)]
    if not able:
        raise CliError(_not_offered(choice, found), ExitCode.REFUSED)
    whose = [manifest for manifest in asked if choice.algo in manifest.algorithms]
    if whose and not {one.type for one in whose} & {one.type for one in able}:
        # Another worker's choice would run another script of that name, or none.
        raise CliError(_choice_of_another(choice, whose[0], able[0]), ExitCode.REFUSED)
    if any(ChosenScript(manifest, choice.algo, choice.given).is_foreign for manifest in able):
        offering, called = _preferred(choice, able), "the script"
    else:
        _require_algorithm(choice.algo)
        offering, called = [one for one in able if choice.algo in one.algorithms], repr(choice.algo)
        if not offering:
            raise CliError(_unknown_algorithm(choice.algo, able, choice.worker), ExitCode.REFUSED)
    if len(offering) > 1:
        choices = " and ".join(f"--worker {manifest.type}" for manifest in offering)
        raise CliError(f"several workers offer {called}: choose between {choices}", ExitCode.REFUSED)
    return offering[0]


def _preferred(choice: ScriptChoice, able: list[WorkerManifest]) -> list[WorkerManifest]:
    """Of several workers that know a choice those that offer the algorithm, else those that know where its script
    is."""
    offering = [one for one in able if choice.algo in one.algorithms]
    return offering or [one for one in able if _knows_where(one, choice.given)] or able


def _knows_where(manifest: WorkerManifest, given: Mapping[str, str | bool]) -> bool:
    places = {name: one for name, one in manifest.choices.items() if one.variable}
    return not places or any(given.get(name) for name in places) or bool(_from_environment(manifest, given))


def _from_environment(manifest: WorkerManifest, given: Mapping[str, str | bool]) -> dict[str, str]:
    """Choices that the user's environment names, where another one that implies the same was made."""
    made = [manifest.choices[name].sets for name in given if name in manifest.choices]
    places = {name: one for name, one in manifest.choices.items() if one.variable and not given.get(name)}
    named = {name: os.environ.get(one.variable or "", "") for name, one in places.items() if one.sets in made}
    return {name: place for name, place in named.items() if place}


def _require_one_script(script: ChosenScript) -> None:
    others = [name for name, choice in script.made.items() if choice.is_foreign and name != script.replacement]
    if not script.replacement:
        _require_algorithm(script.algo)
    elif script.algo or others:
        option = option_of(script.replacement, script.made[script.replacement])
        raise CliError(f"{option} names the script: leave out the algorithm and where it is from", ExitCode.REFUSED)


def _require_algorithm(algo: str) -> None:
    if not algo:
        ctx = click.get_current_context(silent=True)
        command = ctx.command_path if ctx is not None else "mosaic train"
        raise CliError(f"missing argument 'ALGO'. See `{command} --help`.", ExitCode.REFUSED)
    if algo.startswith("-"):
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


def _not_offered(choice: ScriptChoice, found: Discovery) -> str:
    declared = {name: one for manifest in found.workers.values() for name, one in manifest.choices.items()}
    options = " and ".join(option_of(name, declared[name]) if name in declared else name for name in choice.given)
    return f"the worker {choice.worker!r} has no {options}" if choice.worker else f"no worker here has {options}"


def _choice_of_another(choice: ScriptChoice, whose: WorkerManifest, other: WorkerManifest) -> str:
    options = " and ".join(option_of(name, other.choices[name]) for name in choice.given)
    return (
        f"{options} is of the worker {other.type!r}, and {choice.algo!r} an algorithm of {whose.type!r}: leave it out, "
        f"say --worker {other.type}, or give it after -- when it is a flag of {choice.algo!r} itself"
    )


def _unknown_algorithm(algo: str, asked: list[WorkerManifest], worker: str | None) -> str:
    from mosaic_protocol.suggest import nearest

    known = sorted({name for manifest in asked for name in manifest.algorithms})
    where = f" in the worker {worker!r}" if worker is not None else ""
    near = nearest(algo, known)
    hint = f"; did you mean {near!r}?" if near else "."
    if not known:
        return f"there is no algorithm {algo[:60]!r}{where}; it offers none"
    return f"there is no algorithm {algo[:60]!r}{where}{hint} Choose from: {', '.join(known)}."


def _paths(script: ChosenScript) -> list[tuple[str, Choice]]:
    return [(name, choice) for name, choice in script.made.items() if choice.kind in ("file", "folder")]


def _existing(name: str, choice: Choice, text: str) -> str:
    exists: Callable[[Path], bool] = Path.is_file if choice.kind == "file" else Path.is_dir
    path = Path(text).expanduser().absolute()
    if not exists(path):
        raise CliError(f"{option_of(name, choice)}: there is no {choice.kind} {text[:200]}", ExitCode.REFUSED)
    return str(path)
