"""``mosaic train``: from an algorithm and an environment to a run."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from gym_gui.cli import candidates
from gym_gui.cli.commands.script_help import ScriptHelpCommand
from gym_gui.cli.launch import LaunchOptions, launch, launch_options
from gym_gui.cli.options import LARGEST_SEED, Count, Minutes
from gym_gui.cli.own_options import misspelt_options_told, require_values
from gym_gui.cli.run_plan import TrainRequest, make_plan
from gym_gui.cli.script_choice import worker_option, workers_here
from gym_gui.cli.session import CliSession


class _TrainCommand(ScriptHelpCommand):
    """Leaves options that it does not know to the script, and so has to look for those that were meant for itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        require_values(ctx)
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        return [*found, *(candidates.parameters(ctx, incomplete) if incomplete.startswith("--") else ())]


@click.command(
    cls=_TrainCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": False},
    options_metavar="[--env-id E] [OPTIONS]",
    epilog="Flags that are not listed here go to the training script: --num-envs 8 --learning-rate 3e-4 "
    "--no-anneal-lr. A -- before them keeps a flag from being taken for an option of mosaic. `mosaic train ALGO "
    "--help` lists them with their defaults.",
)
@click.argument("algo", required=False, default="", shell_complete=candidates.algorithms)
@click.argument("script_flags", metavar="[SCRIPT FLAGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--env-id", metavar="E", help="The environment to train on.", shell_complete=candidates.environments)
@click.option("--dataset", metavar="D", help="The dataset to learn from, where the algorithm needs one.")
@click.option("--seed", type=Count(0, LARGEST_SEED), default=1, show_default=True, help="Seed of everything random.")
@click.option("--total-timesteps", type=Count(most=10**12), help="Environment steps.  [default: the script's]")
@click.option(
    "--preset",
    metavar="NAME",
    help="Settings that were tuned for this environment; flags that you give win.",
    shell_complete=candidates.presets,
)
@worker_option
@click.option(
    "--resume", metavar="C", help="Go on exactly where this checkpoint left off.", shell_complete=candidates.checkpoints
)
@click.option(
    "--warm-start",
    metavar="C",
    help="Begin with the weights of this checkpoint.",
    shell_complete=candidates.checkpoints,
)
@click.option("--run-name", metavar="NAME", help="What to call the run.  [default: ALGO-ENV-sSEED, numbered]")
@click.option("--cpus", type=Count(), default=1, show_default=True, help="CPU cores to reserve.")
@click.option("--gpus", type=Count(0), default=0, show_default=True, help="GPUs the run cannot do without.")
@click.option("--memory-mb", type=Count(0), default=0, help="Memory to reserve.  [default: none]")
@click.option(
    "--host",
    metavar="NAME",
    default="",
    help="The host to run on (`mosaic hosts`), or any.  [default: this machine]",
    shell_complete=candidates.hosts,
)
@click.option(
    "--label",
    "labels",
    metavar="LABEL",
    multiple=True,
    help="What the host must be labelled with, such as gpu; without --host, any that is.  Repeatable.",
    shell_complete=candidates.host_labels,
)
@click.option("--max-wallclock-minutes", type=Minutes(), metavar="M", help="End the run as timed out after this long.")
@click.option("--notes", metavar="TEXT", default="", help="Free text to keep with the run.")
@click.option("--tag", "tags", metavar="T", multiple=True, help="A short text to find the run by; may be repeated.")
@click.option("--agent-id", metavar="ID", default="", help="Who learns; kept with the run and its checkpoints.")
@click.option("--worker-id", metavar="ID", default="", help="Which worker this is; kept with the run.")
@click.option("--group", metavar="NAME", default="", help="The experiment that the run is one of.")
@click.option("--extra", "extras", metavar="NAME=VALUE", multiple=True, help="A setting of the worker's; repeatable.")
@click.option("--no-tensorboard", is_flag=True, help="Write no TensorBoard files.")
@click.option(
    "--checkpoint-every",
    type=Count(0, 10**12),
    metavar="STEPS",
    help="Steps between two checkpoints; 0 writes only the last one.  [default: the worker's]",
)
@click.option(
    "--checkpoint-keep",
    type=Count(0, 10_000),
    metavar="N",
    help="Newest checkpoints to keep besides the best one; 0 keeps all.  [default: 3]",
)
@click.option(
    "--keep-steps",
    type=Count(0, 10**12),
    metavar="N",
    help="Newest recorded steps to keep; 0 keeps all.  [default: the daemon's]",
)
@click.option("--no-checkpoints", is_flag=True, help="Write no checkpoints; the run cannot be resumed or evaluated.")
@launch_options
@click.pass_obj
def train(
    session: CliSession,
    /,
    detach: bool,
    dry_run: bool,
    no_preflight: bool,
    summary: bool,
    as_json: bool,
    yes: bool,
    **request: Any,
) -> int:
    """Train an algorithm and follow the run.

    The settings are checked before anything starts. The exit code is the outcome of the run: 0 completed, 1 failed,
    5 canceled, 6 timed out, 7 lost. Ctrl-C stops following, not the run.
    """
    with misspelt_options_told():
        plan = make_plan(TrainRequest.of(request), workers_here())
        return launch(session, plan, LaunchOptions(detach, dry_run, no_preflight, summary, as_json, yes))
