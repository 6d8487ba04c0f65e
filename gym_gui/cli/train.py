"""``mosaic train``: from an algorithm and an environment to a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gym_gui.cli import candidates
from gym_gui.cli.launch import LaunchOptions, launch, launch_options
from gym_gui.cli.options import LARGEST_SEED, Count, Minutes
from gym_gui.cli.own_options import misspelt_options_told, require_values
from gym_gui.cli.run_plan import RunPlan, TrainRequest, make_plan
from gym_gui.cli.script_choice import script_options
from gym_gui.cli.script_help import ScriptHelpCommand
from gym_gui.cli.session import CliSession


class _TrainCommand(ScriptHelpCommand):
    """Leaves options that it does not know to the script, and so has to look for those that were meant for itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        require_values(ctx)
        return rest


@click.command(
    cls=_TrainCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": False},
    options_metavar="--env-id E [OPTIONS]",
    epilog="Flags that are not listed here go to the training script: --num-envs 8 --learning-rate 3e-4 "
    "--no-anneal-lr. A -- before them keeps a flag from being taken for an option of mosaic. `mosaic train ALGO "
    "--help` lists them with their defaults.",
)
@click.argument("algo", required=False, default="", shell_complete=candidates.algorithms)
@click.argument("script_flags", metavar="[SCRIPT FLAGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--env-id", metavar="E", help="The environment to train on.", shell_complete=candidates.environments)
@click.option("--seed", type=Count(0, LARGEST_SEED), default=1, show_default=True, help="Seed of everything random.")
@click.option("--total-timesteps", type=Count(most=10**12), help="Environment steps.  [default: the script's]")
@script_options
@click.option("--run-name", metavar="NAME", help="What to call the run.  [default: ALGO-ENV-sSEED]")
@click.option("--cpus", type=Count(), default=1, show_default=True, help="CPU cores to reserve.")
@click.option("--gpus", type=Count(0), default=0, show_default=True, help="GPUs the run cannot do without.")
@click.option("--memory-mb", type=Count(0), default=0, help="Memory to reserve.  [default: none]")
@click.option("--max-wallclock-minutes", type=Minutes(), metavar="M", help="End the run as timed out after this long.")
@click.option("--notes", metavar="TEXT", default="", help="Free text to keep with the run.")
@click.option("--tag", "tags", metavar="T", multiple=True, help="A short text to find the run by; may be repeated.")
@click.option("--extra", "extras", metavar="NAME=VALUE", multiple=True, help="A setting of the worker's; repeatable.")
@click.option("--no-tensorboard", is_flag=True, help="Write no TensorBoard files.")
@click.option("--no-checkpoints", is_flag=True, help="Write no checkpoints; the run cannot be resumed or evaluated.")
@launch_options
@click.pass_obj
def train(
    session: CliSession,
    /,
    detach: bool,
    dry_run: bool,
    no_preflight: bool,
    no_tensorboard: bool,
    no_checkpoints: bool,
    summary: bool,
    as_json: bool,
    **request: Any,
) -> int:
    """Train an algorithm and follow the run.

    The settings are checked before anything starts. The exit code is the outcome of the run: 0 completed, 1 failed,
    5 canceled, 6 timed out, 7 lost. Ctrl-C stops following, not the run.
    """
    plan = _plan(TrainRequest(**request, tensorboard=not no_tensorboard, checkpoints=not no_checkpoints))
    _place_checkpoints(plan, session)
    with misspelt_options_told():
        return launch(session, plan, LaunchOptions(detach, dry_run, no_preflight, summary, as_json))


def _plan(request: TrainRequest) -> RunPlan:
    from mosaic_protocol.worker_manifest import discover

    return make_plan(request, discover())


def _place_checkpoints(plan: RunPlan, session: CliSession) -> None:
    """Put the path of a checkpoint where one was named by its run, or by a path that holds only here."""
    settings = plan.worker_config
    for flag in ("resume", "warm_start"):
        named = plan.flags.get(flag)
        if isinstance(named, str) and (plan.is_foreign or settings.get("algo") in plan.manifest.algorithms):
            from gym_gui.services.checkpoints.registry import TrainingRegistry
            from gym_gui.services.checkpoints.use import require_start

            entry = TrainingRegistry(session.paths).find(named)
            require_start(flag, entry, plan.algorithm, settings.get("env_id") or entry.env_id)
            plan.flags[flag] = str(entry.path)
    if isinstance(teacher := plan.flags.get("teacher_policy"), str):
        plan.flags["teacher_policy"] = _placed_teacher(teacher, session)


def _placed_teacher(named: str, session: CliSession) -> str:
    """A teacher may be a file of somebody else's as well as a checkpoint of a run."""
    from gym_gui.services.checkpoints.registry import TrainingRegistry

    path = Path(named).expanduser()
    return str(path.absolute() if path.exists() else TrainingRegistry(session.paths).find(named).path)
