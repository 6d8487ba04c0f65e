"""``mosaic sweep``: search settings with many runs that the daemon owns, and what became of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import LARGEST_SEED, Count, PlainGroup, help_when_alone, json_option
from gym_gui.cli.own_options import misspelt_options_told, require_values
from gym_gui.cli.patience import Patient
from gym_gui.cli.script_choice import ScriptCommand, worker_option, workers_here
from gym_gui.cli.session import CliSession, program
from gym_gui.cli.sweep_plan import check, expected_of, planned, specified, tell_plan, warn
from gym_gui.cli.sweep_view import (
    SHOWN,
    followed,
    list_row,
    measured_object,
    measured_text,
    most_telling,
    show_study,
    shown_sweep,
    sweep_object,
    trials_table,
)

if TYPE_CHECKING:
    from gym_gui.cli.run_plan import RunPlan
    from gym_gui.services.sweeps.cost import SweepCost
    from gym_gui.services.sweeps.fresh_seeds import Contender
    from gym_gui.services.sweeps.model import Sweep, SweepSpec
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_POLL_SECONDS = 0.5
_STOP_SECONDS = 120.0
_BUDGET = re.compile(r"\+(\d{1,6})(%?)")


class _SweepGroup(PlainGroup):
    """A group whose first word may be an algorithm instead of a command: that starts a sweep."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            known = {name for manifest in workers_here(ctx).workers.values() for name in manifest.algorithms}
            from mosaic_protocol.suggest import nearest

            near = nearest(args[0], self.commands)
            if args[0] not in known and near is not None:
                raise CliError(f"there is no command {args[0][:60]!r}; did you mean {near!r}?", ExitCode.REFUSED)
            return "start", self.commands["start"], args
        return super().resolve_command(ctx, args)


class _StartCommand(ScriptCommand):
    """Leaves options that it does not know to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        require_values(ctx)
        return rest


@click.group(cls=_SweepGroup, invoke_without_command=True)
@click.pass_context
def sweep(ctx: click.Context) -> None:
    """Search settings with many runs.

    `mosaic sweep ppo --env-id CartPole-v1 --space sweep.toml` starts a sweep. The daemon owns it: it goes on when this
    command ends, and after a crash.
    """
    help_when_alone(ctx)


sweep_argument = click.argument("sweep", metavar="SWEEP")
sweep_or_newest = click.argument("sweep", metavar="[SWEEP]", required=False)
"""For commands that change nothing of a sweep: without a name they look at the newest."""


# ---- start -------------------------------------------------------------------------------------------------------


@sweep.command(
    cls=_StartCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": False},
    options_metavar="--space FILE [OPTIONS]",
    epilog="Flags that are not listed here go to the training script, in every trial.",
)
@click.argument("algo", required=False, default="", shell_complete=candidates.algorithms)
@click.argument("script_flags", metavar="[SCRIPT FLAGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--env-id", metavar="E", help="The environment to train on.", shell_complete=candidates.environments)
@click.option("--dataset", metavar="D", help="The dataset to learn from, where the algorithm needs one.")
@click.option(
    "--preset",
    metavar="NAME",
    help="Begin from settings that were tuned for this environment; the space and flags that you give win.",
    shell_complete=candidates.presets,
)
@click.option("--space", metavar="FILE", help="TOML file with the settings to search.", shell_complete=candidates.files)
@click.option("--trials", type=Count(1, 100_000), default=20, show_default=True, help="How many settings to try.")
@click.option("--parallel", type=Count(1, 1000), default=1, show_default=True, help="Runs at the same time.")
@click.option("--total-timesteps", type=Count(most=10**12), help="Environment steps of a run.  [default: the script's]")
@click.option(
    "--metric", metavar="TAG", default="charts/episodic_return", show_default=True, help="What is to get better."
)
@click.option("--minimize", is_flag=True, help="Lower values of the metric are better.")
@click.option(
    "--last", type=Count(1, 1_000_000), default=100, show_default=True, help="Average so many last values of it."
)
@click.option("--evaluate", type=Count(0, 1_000_000), default=0, help="Play so many episodes after each run instead.")
@click.option(
    "--evaluate-mode",
    type=click.Choice(["deterministic", "sampled"]),
    default="deterministic",
    show_default=True,
    help="How they are played.",
)
@click.option("--evaluate-seed", type=Count(0, LARGEST_SEED), default=7, show_default=True, help="Seed of them.")
@click.option(
    "--seeds", type=Count(1, 1000), default=1, show_default=True, help="Seeds of a trial that gets to the end."
)
@click.option("--seed", type=Count(0, LARGEST_SEED), default=1, show_default=True, help="The first of them.")
@click.option(
    "--objective",
    type=click.Choice(["iqm", "mean"]),
    default="iqm",
    show_default=True,
    help="One number of several seeds.",
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random", "grid", "cmaes"]),
    default="tpe",
    show_default=True,
    help="What proposes settings.",
)
@click.option("--sampler-seed", type=Count(0, LARGEST_SEED), default=1, show_default=True, help="Seed of the sampler.")
@click.option(
    "--pruner",
    type=click.Choice(["none", "median", "asha", "pbt"]),
    default="none",
    show_default=True,
    help="What stops poor trials early; pbt trains them as a population.",
)
@click.option("--rungs", metavar="STEPS", help="Where it looks: 10k,20k.  [default: from a quarter of the run on]")
@click.option("--eta", type=Count(2, 100), default=2, show_default=True, help="asha: the best 1/eta go on.")
@click.option("--interval", type=Count(1, 10**12), help="pbt: steps from rung to rung.  [default: a tenth of the run]")
@click.option(
    "--quantile",
    type=click.FloatRange(0.01, 0.5),
    default=0.25,
    show_default=True,
    help="pbt: the part of the population that becomes copies of the best.",
)
@click.option(
    "--perturb",
    type=click.FloatRange(1, 100, min_open=True),
    default=1.25,
    show_default=True,
    help="pbt: a copy's numbers are multiplied or divided by this.",
)
@click.option(
    "--resample",
    type=click.FloatRange(0, 1),
    default=0.25,
    show_default=True,
    help="pbt: how probably a copy's setting is drawn from its whole range instead.",
)
@click.option(
    "--retries", type=Count(0, 100), default=2, show_default=True, help="How often to try a crashed run again."
)
@click.option("--patience", type=Count(0, 100_000), default=0, help="End after so many trials without a better one.")
@worker_option
@click.option("--name", metavar="NAME", help="What to call the sweep.  [default: ALGO-ENV, numbered]")
@click.option("--cpus", type=Count(), default=1, show_default=True, help="CPU cores to reserve for each run.")
@click.option("--gpus", type=Count(0), default=0, show_default=True, help="GPUs that a run cannot do without.")
@click.option("--memory-mb", type=Count(0), default=0, help="Memory to reserve for each run.  [default: none]")
@click.option(
    "--host",
    metavar="NAME",
    default="",
    help="The host of the runs (`mosaic hosts`), or any to spread them.  [default: this machine]",
    shell_complete=candidates.hosts,
)
@click.option(
    "--label",
    "labels",
    metavar="LABEL",
    multiple=True,
    help="What the hosts must be labelled with, such as gpu; without --host, any that is.  Repeatable.",
    shell_complete=candidates.host_labels,
)
@click.option("--tag", "tags", metavar="T", multiple=True, help="A short text to find the runs by; may be repeated.")
@click.option("--extra", "extras", metavar="NAME=VALUE", multiple=True, help="A setting of the worker's; repeatable.")
@click.option("--no-preflight", is_flag=True, help="Do not ask the worker to check settings first.")
@click.option("--dry-run", is_flag=True, help="Check everything, tell what would run, start nothing.")
@click.option("--yes", is_flag=True, help="Run a script of your own for the first time without being asked.")
@click.option("--follow", is_flag=True, help="Stay until the sweep is over, and tell of each trial.")
@json_option
@click.pass_obj
def start(session: CliSession, /, **given: Any) -> int:
    """Start a sweep over the settings in a space file.

    Everything is checked before the first run starts: every name in the file, every range, and the outermost settings
    with a dry run of the worker.
    """
    as_json, follow = given["as_json"], given["follow"]
    with misspelt_options_told():
        plan, described = planned(session, given, {one.name for one in start.params})
    spec = specified(plan, given, described)
    check(session, plan, spec, given)
    source = str(given["env_id"] or given["dataset"] or "sweep").lower()
    name = given["name"] or f"{plan.algorithm}-{source}".replace("/", "-")
    if given["dry_run"]:
        return tell_plan(name, spec, _expected_without_starting(session, plan, spec), as_json=as_json)
    with session.client() as client:
        expected = None if as_json else expected_of(client, plan, spec)
        if expected is not None and expected.of_one is not None:
            click.echo(f"Expected: {expected.sentence()}")
        warn(expected)
        found = client.submit_sweep(name, spec, name_is_default=given["name"] is None)
    if follow:
        return followed(session, found.sweep_id, as_json=as_json)
    if as_json:
        fmt.echo_json(sweep_object(found))
    else:
        click.echo(
            f"The sweep {found.name} was accepted: {spec.trials} trials, {spec.parallel} at a time. "
            f"Look at it with `{program()} sweep show {found.name}`."
        )
    return ExitCode.OK


def _expected_without_starting(session: CliSession, plan: RunPlan, spec: SweepSpec) -> SweepCost | None:
    """A dry run starts no daemon; without one nothing is known of earlier runs."""
    client = session.impatient_client(timeout=5.0)
    if client is None:
        return expected_of(None, plan, spec)
    with client:
        return expected_of(client, plan, spec)


# ---- show --------------------------------------------------------------------------------------------------------


@sweep.command()
@sweep_or_newest
@click.option("--study", metavar="FILE", help="Show a study that Optuna wrote, SQLite or journal, instead.")
@click.option("--all", "show_all", is_flag=True, help=f"List every trial, not only the best {SHOWN}.")
@click.option("--follow", is_flag=True, help="Stay until the sweep is over, and tell of each trial.")
@json_option
@click.pass_obj
def show(session: CliSession, sweep: str | None, study: str | None, show_all: bool, follow: bool, as_json: bool) -> int:
    """Show a sweep and its trials, best first.

    Without a name the newest sweep. With --study a file of Optuna's own is opened, read-only.
    """
    if sweep is not None and study is not None:
        raise CliError("name a sweep, or a file with --study, not both", ExitCode.REFUSED)
    if study is not None:
        return show_study(Path(study).expanduser(), show_all=show_all, as_json=as_json)
    with session.client() as client:
        sweep = sweep or _newest(client)
        found = client.sweep(sweep)
        file = client.sweep_message(sweep).study_file
    if follow:
        return followed(session, found.sweep_id, as_json=as_json)
    if as_json:
        from gym_gui.services.sweeps.report import trial_object

        fmt.echo_json({**sweep_object(found), "study": file, "trials": [trial_object(one) for one in found.trials]})
        return ExitCode.OK
    click.echo(shown_sweep(found, file))
    click.echo()
    click.echo(trials_table(found, found.trials if show_all else most_telling(found)))
    if len(found.trials) > SHOWN and not show_all:
        click.echo(f"{len(found.trials) - SHOWN} more: --all lists them.")
    return ExitCode.OK


def _newest(client: TrainerClient) -> str:
    from gym_gui.services.sweeps.model import decode_sweep

    found = client.sweeps()
    if not found:
        raise CliError(f"there are no sweeps yet: `{program()} sweep --help` says how to start one", ExitCode.REFUSED)
    return decode_sweep(found[0].document).sweep_id


@sweep.command(name="list")
@json_option
@click.pass_obj
def list_(session: CliSession, as_json: bool) -> int:
    """List the sweeps, newest first."""
    from gym_gui.services.sweeps.model import decode_sweep, decode_trial
    from gym_gui.services.sweeps.report import trial_object

    with session.client() as client:
        messages = client.sweeps()
    found = [(decode_sweep(one.document), one) for one in messages]
    if as_json:
        listed = [
            {
                **sweep_object(one),
                "trials": dict(message.trials),
                "best": trial_object(decode_trial(message.best)) if message.best else None,
            }
            for one, message in found
        ]
        fmt.echo_json({"sweeps": listed})
    elif not found:
        click.echo(f"There are no sweeps yet: `{program()} sweep --help` says how to start one.")
    else:
        rows = [list_row(one, message) for one, message in found]
        click.echo(fmt.table(["ID", "NAME", "STATE", "TRIALS", "BEST", "AGE"], rows, give_way="NAME"))
    return ExitCode.OK


# ---- pause, resume, stop -----------------------------------------------------------------------------------------


def _tell(found: Sweep, sentence: str, *, as_json: bool) -> int:
    if as_json:
        fmt.echo_json(sweep_object(found))
    else:
        click.echo(sentence)
    return ExitCode.OK


@sweep.command()
@sweep_argument
@json_option
@click.pass_obj
def pause(session: CliSession, sweep: str, as_json: bool) -> int:
    """Begin no new trial, and hold the runs.

    A run whose worker cannot pause goes on to its end.
    """
    with session.client() as client:
        found = client.pause_sweep(sweep)
    return _tell(found, f"The sweep {found.name} is paused.", as_json=as_json)


@sweep.command()
@sweep_argument
@click.option("--budget", metavar="+N", help="More trials: +10, or +50% of those there may be.")
@json_option
@click.pass_obj
def resume(session: CliSession, sweep: str, budget: str | None, as_json: bool) -> int:
    """Let a sweep go on, also with more trials.

    Trials that a stop interrupted go on from their checkpoints. A sweep that is over needs --budget.
    """
    more, percent = _more(budget)
    with session.client() as client:
        found = client.resume_sweep(sweep, more=more, percent=percent)
    return _tell(found, f"The sweep {found.name} goes on: {found.budget} trials in all.", as_json=as_json)


def _more(budget: str | None) -> tuple[int, int]:
    if budget is None:
        return 0, 0
    found = _BUDGET.fullmatch(budget.strip())
    if found is None or not int(found[1]):
        raise CliError(f"--budget takes +10 or +50%, got {budget[:60]!r}", ExitCode.REFUSED)
    return (0, int(found[1])) if found[2] else (int(found[1]), 0)


@sweep.command()
@sweep_argument
@click.option("--no-wait", is_flag=True, help="Do not wait until its runs are over.")
@json_option
@click.pass_obj
def stop(session: CliSession, sweep: str, no_wait: bool, as_json: bool) -> int:
    """End the runs of a sweep, politely first.

    They write a checkpoint; `mosaic sweep resume` goes on from there.
    """
    with session.client() as client:
        found = client.stop_sweep(sweep)
        if not no_wait:
            found = _waited(lambda: client.sweep(found.sweep_id), lambda one: one.is_over, _STOP_SECONDS)
    sentence = f"The sweep {found.name} is {found.state}."
    return _tell(found, sentence, as_json=as_json)


def _waited(look: Callable[[], Sweep], reached: Callable[[Sweep], bool], seconds: float) -> Sweep:
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if reached(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


# ---- report and best ---------------------------------------------------------------------------------------------


@sweep.command()
@sweep_or_newest
@json_option
@click.pass_obj
def report(session: CliSession, sweep: str | None, as_json: bool) -> int:
    """Say what a sweep found, what it cost, and what pruning saved.

    Without a name the newest one.
    """
    from gym_gui.services.sweeps.report import report_of

    with session.client() as client:
        sweep = sweep or _newest(client)
        found = client.sweep(sweep)
        file = client.sweep_message(sweep).study_file
    told = report_of(found)
    if as_json:
        fmt.echo_json(told)
        return ExitCode.OK
    click.echo(shown_sweep(found, file))
    click.echo(fmt.pairs([("trained", f"{told['seconds_trained'] / 60:,.1f} minutes in all")]))
    for note in told["notes"]:
        click.echo(f"Note: {fmt.one_line(note)}")
    return ExitCode.OK


@sweep.command()
@sweep_or_newest
@click.argument("count", metavar="[K]", type=Count(1, 100), default=1)
@click.option("--seeds", type=Count(1, 1000), default=5, show_default=True, help="Fresh seeds for each.")
@click.option(
    "--first-seed", type=Count(0, LARGEST_SEED - 1000), default=100_001, show_default=True, help="The first of them."
)
@click.option("--no-wait", is_flag=True, help="Start the runs and return; the same command reports later.")
@json_option
@click.pass_obj
def best(
    session: CliSession, sweep: str | None, count: int, seeds: int, first_seed: int, no_wait: bool, as_json: bool
) -> int:
    """Measure the best settings on fresh seeds.

    Without a name those of the newest sweep. The best K are run beside the default ones, and compared. The value that
    a trial won with is the highest of many; on seeds that the sweep never saw it is an honest one. The same command
    given again starts nothing twice. Where the sweep is judged by evaluations, so are these runs.
    """
    from gym_gui.services.sweeps import fresh_seeds

    with session.client() as client:
        found = client.sweep(sweep or _newest(client))
        if found.best() is None:
            raise CliError(f"no trial of the sweep {found.name} is complete yet", ExitCode.REFUSED)
        taken = range(first_seed, first_seed + seeds)
        if used := sorted(set(taken) & set(found.spec.seeds)):
            raise CliError(f"the seed {used[0]} is not fresh: the sweep used it. Give --first-seed", ExitCode.REFUSED)
        runs = {who: fresh_seeds.submitted(client, found, who, taken) for who in fresh_seeds.contenders(found, count)}
        if no_wait:
            ids = [run_id for members in runs.values() for run_id in members]
            if as_json:
                fmt.echo_json({"runs": ids})
            else:
                click.echo(f"{fmt.counted(len(ids), 'run')} started. The same command without --no-wait reports.")
            return ExitCode.OK
    with Patient(session, "runs go on") as daemon:
        over = _until_over(daemon, runs)
        told = daemon.ask(lambda client: fresh_seeds.measured(client, found, over, session.paths))
    if as_json:
        fmt.echo_json(
            {"sweep": found.name, "metric": found.spec.metric, "contenders": [measured_object(one) for one in told]}
        )
    else:
        click.echo(measured_text(found, told, seeds))
    return ExitCode.OK


def _until_over(daemon: Patient, runs: Mapping[Contender, Sequence[str]]) -> dict[Contender, list[pb.Run]]:
    def look(client: TrainerClient) -> dict[Contender, list[pb.Run]]:
        return {who: [client.run(run_id) for run_id in members] for who, members in runs.items()}

    while True:
        found = daemon.ask(look)
        if all(run.state == "TERM" for members in found.values() for run in members):
            return found
        time.sleep(_POLL_SECONDS)
