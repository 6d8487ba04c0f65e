"""``mosaic sweep``: search settings with many runs that the daemon owns, and what became of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import LARGEST_SEED, Count, PlainGroup, help_when_alone, json_option
from gym_gui.cli.own_options import misspelt_options_told, require_values
from gym_gui.cli.run_plan import RunPlan, TrainRequest, make_plan
from gym_gui.cli.script_choice import ScriptChoice, ScriptCommand, worker_option, workers_here
from gym_gui.cli.session import CliSession, passing_notice, program

if TYPE_CHECKING:
    from gym_gui.services.sweeps.foreign_studies import ForeignStudy
    from gym_gui.services.sweeps.fresh_seeds import Contender, Measured
    from gym_gui.services.sweeps.model import Sweep, SweepSpec, Trial
    from gym_gui.services.sweeps.space import Space
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_POLL_SECONDS = 0.5
_STOP_SECONDS = 120.0
_SHOWN = 20
_BUDGET = re.compile(r"\+(\d{1,6})(%?)")
_CODES = {"completed": ExitCode.OK, "failed": ExitCode.FAILED, "stopped": ExitCode.CANCELED}


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
    type=click.Choice(["none", "median", "asha"]),
    default="none",
    show_default=True,
    help="What stops poor trials early.",
)
@click.option("--rungs", metavar="STEPS", help="Where it looks: 10k,20k.  [default: from a quarter of the run on]")
@click.option("--eta", type=Count(2, 100), default=2, show_default=True, help="asha: the best 1/eta go on.")
@click.option(
    "--retries", type=Count(0, 100), default=2, show_default=True, help="How often to try a crashed run again."
)
@click.option("--patience", type=Count(0, 100_000), default=0, help="End after so many trials without a better one.")
@worker_option
@click.option("--name", metavar="NAME", help="What to call the sweep.  [default: ALGO-ENV, numbered]")
@click.option("--cpus", type=Count(), default=1, show_default=True, help="CPU cores to reserve for each run.")
@click.option("--gpus", type=Count(0), default=0, show_default=True, help="GPUs that a run cannot do without.")
@click.option("--memory-mb", type=Count(0), default=0, help="Memory to reserve for each run.  [default: none]")
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
    from gym_gui.services.sweeps.space import SpaceError

    as_json, follow = given["as_json"], given["follow"]
    with misspelt_options_told():
        plan, described = _plan(session, given)
    try:
        space = _space(given["space"], described)
        spec = _spec(plan, space, given, described)
    except SpaceError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    _check(session, plan, spec, given)
    name = given["name"] or f"{plan.algorithm}-{str(given['env_id'] or given['dataset'] or 'sweep').lower()}".replace(
        "/", "-"
    )
    if given["dry_run"]:
        return _tell_plan(name, spec, as_json=as_json)
    with session.client() as client:
        found = client.submit_sweep(name, spec, name_is_default=given["name"] is None)
        if follow:
            return _followed(client, found.sweep_id, as_json=as_json)
    if as_json:
        fmt.echo_json(_sweep_object(found))
    else:
        click.echo(
            f"The sweep {found.name} was accepted: {spec.trials} trials, {spec.parallel} at a time. "
            f"Look at it with `{program()} sweep show {found.name}`."
        )
    return ExitCode.OK


def _plan(session: CliSession, given: Mapping[str, Any]) -> tuple[RunPlan, dict[str, Any] | None]:
    """A run as every trial has it, and the flags of its script; None where the worker cannot tell them."""
    from gym_gui.services.worker_queries import WorkerQueries
    from gym_gui.services.worker_tools import ToolError

    own = {one.name for one in start.params if one.name not in ("algo", "script_flags", "worker")}
    run_options = {"env_id", "dataset", "seed", "total_timesteps", "cpus", "gpus", "memory_mb", "tags", "extras"}
    passed = {name: value for name, value in given.items() if name in run_options or name not in own}
    plan = make_plan(replace(TrainRequest.of(passed), run_name="sweep"), workers_here())
    script = ScriptChoice.of(given).chosen(workers_here())
    try:
        with passing_notice("reading the script's flags…"):
            return plan, WorkerQueries(session.paths).describe_flags(
                plan.manifest.type, script.settings(), script.bundle
            )
    except ToolError:
        return plan, None


def _space(file: str | None, described: Mapping[str, Any] | None) -> Space:
    from gym_gui.services.sweeps.space import MOST_BYTES, read_space

    if not file:
        raise CliError("--space is missing: name a TOML file with the settings to search", ExitCode.REFUSED)
    try:
        with Path(file).expanduser().open("rb") as opened:
            text = opened.read(MOST_BYTES + 1).decode()
    except OSError as error:
        raise CliError(f"--space: {file[:200]} cannot be read: {error.strerror}", ExitCode.REFUSED) from error
    except UnicodeDecodeError:
        raise CliError(f"--space: {file[:200]} is not UTF-8 text", ExitCode.REFUSED) from None
    return read_space(text, file, described["flags"] if described else ())


def _spec(plan: RunPlan, space: Space, given: Mapping[str, Any], described: Mapping[str, Any] | None) -> SweepSpec:
    from gym_gui.services.sweeps.model import SweepSpec
    from gym_gui.services.sweeps.space import SpaceError, grid_points

    total = given["total_timesteps"] or _default_steps(described)
    config = dict(plan.config)
    if total:
        config["metadata"]["worker"]["config"]["total_timesteps"] = total
    trials = given["trials"]
    if given["sampler"] == "grid":
        try:
            trials = min(trials, grid_points(space.searched))
        except SpaceError as error:
            raise SpaceError(f"{given['space']}: {error}") from None
    return SweepSpec(
        config=config,
        space=space.searched,
        fixed=space.fixed,
        metric=given["metric"],
        trials=trials,
        direction="minimize" if given["minimize"] else "maximize",
        parallel=given["parallel"],
        seeds=tuple(range(given["seed"], given["seed"] + given["seeds"])),
        sampler=given["sampler"],
        sampler_seed=given["sampler_seed"],
        pruner=given["pruner"],
        rungs=_rungs(given, total),
        eta=given["eta"],
        objective=given["objective"],
        last=given["last"],
        retries=given["retries"],
        patience=given["patience"],
    )


def _default_steps(described: Mapping[str, Any] | None) -> int:
    flags = described["flags"] if described else ()
    found = next((flag["default"] for flag in flags if flag["name"] == "total_timesteps"), 0)
    return found if isinstance(found, int) else 0


def _rungs(given: Mapping[str, Any], total: int) -> tuple[int, ...]:
    """Those that were asked for; else a quarter of the run, and for asha each eta times the one before, for the median
    each quarter. The first is generous on purpose: what begins slowly is to be seen."""
    if given["pruner"] == "none":
        if given["rungs"]:
            raise CliError("--rungs are for a pruner: give --pruner asha or --pruner median as well", ExitCode.REFUSED)
        return ()
    if not total:
        raise CliError(f"--pruner {given['pruner']} needs --total-timesteps", ExitCode.REFUSED)
    if given["rungs"]:
        steps = [Count(most=10**12).convert(word, None, None) for word in given["rungs"].split(",")]
        if steps != sorted(set(steps)) or steps[-1] >= total:
            raise CliError(f"--rungs are steps in ascending order below {total:,}", ExitCode.REFUSED)
        return tuple(steps)
    if total < 8:
        raise CliError(f"--pruner {given['pruner']} has nothing to look at in {total} steps", ExitCode.REFUSED)
    first = total // 4
    if given["pruner"] == "median":
        return first, 2 * first, 3 * first
    found = [first]
    while found[-1] * given["eta"] < total:
        found.append(found[-1] * given["eta"])
    return tuple(found)


def _check(session: CliSession, plan: RunPlan, spec: SweepSpec, given: Mapping[str, Any]) -> None:
    """Dry runs with the lowest and the highest value of every setting: what the script does not take shows here."""
    from gym_gui.cli.consent import require_consent
    from gym_gui.cli.preflight import check_with_worker
    from gym_gui.services.sweeps.model import config_of_trial

    told = None
    for end, word in ((0, "lowest"), (1, "highest")):
        if given["no_preflight"]:
            break
        params = {**spec.fixed, **{name: one.ends()[end] for name, one in spec.space.items()}}
        config = config_of_trial(spec, params, spec.seeds[0], name="sweep", group="sweep")
        try:
            with passing_notice("checking the settings…"):
                told = check_with_worker(replace(plan, config=config), session.paths)
        except CliError as error:
            if error.code != ExitCode.REFUSED or str(error) == _refusal_of(plan, session):
                raise  # it is not the file's fault
            sentence = f"{given['space']}: the {word} value of every setting makes no run: {error}"
            raise CliError(sentence, ExitCode.REFUSED) from error
    if plan.is_foreign and not given["dry_run"]:
        may_ask = not given["as_json"]
        require_consent(told, plan.worker_config, plan.manifest, session.paths, yes=given["yes"], may_ask=may_ask)


def _refusal_of(plan: RunPlan, session: CliSession) -> str:
    """What the worker has against a run with none of the searched settings; "" for nothing."""
    from gym_gui.cli.preflight import check_with_worker

    try:
        check_with_worker(plan, session.paths)
    except CliError as error:
        return str(error)
    return ""


def _tell_plan(name: str, spec: SweepSpec, *, as_json: bool) -> int:
    if as_json:
        import msgspec

        fmt.echo_json({"name": name, "spec": msgspec.to_builtins(spec)})
        return ExitCode.OK
    rungs = ", ".join(f"{step:,}" for step in spec.rungs) or "none"
    click.echo("This sweep would start:")
    click.echo(
        fmt.pairs(
            [
                ("name", name),
                ("searched", ", ".join(spec.space)),
                ("fixed", ", ".join(spec.fixed) or "nothing"),
                ("trials", f"{spec.trials}, {spec.parallel} at a time, by {spec.sampler}"),
                ("steps of a run", f"{spec.total_steps:,}" if spec.total_steps else "the script's"),
                ("pruner", f"{spec.pruner}, rungs at steps: {rungs}"),
            ]
        )
    )
    click.echo("Nothing was started.")
    return ExitCode.OK


# ---- show --------------------------------------------------------------------------------------------------------


@sweep.command()
@click.argument("sweep", metavar="[SWEEP]", required=False)
@click.option("--study", metavar="FILE", help="Show a study that Optuna wrote, SQLite or journal, instead.")
@click.option("--all", "show_all", is_flag=True, help=f"List every trial, not only the best {_SHOWN}.")
@click.option("--follow", is_flag=True, help="Stay until the sweep is over, and tell of each trial.")
@json_option
@click.pass_obj
def show(session: CliSession, sweep: str | None, study: str | None, show_all: bool, follow: bool, as_json: bool) -> int:
    """Show a sweep and its trials, best first.

    With --study a file of Optuna's own is opened, read-only.
    """
    if (sweep is None) == (study is None):
        raise CliError("name a sweep, or a file with --study", ExitCode.REFUSED)
    if study is not None:
        return _show_study(Path(study).expanduser(), show_all=show_all, as_json=as_json)
    assert sweep is not None
    with session.client() as client:
        if follow:
            return _followed(client, sweep, as_json=as_json)
        found = client.sweep(sweep)
        file = client.sweep_message(sweep).study_file
    if as_json:
        from gym_gui.services.sweeps.report import trial_object

        fmt.echo_json({**_sweep_object(found), "study": file, "trials": [trial_object(one) for one in found.trials]})
        return ExitCode.OK
    click.echo(_shown_sweep(found, file))
    click.echo()
    click.echo(_trials_table(found, found.trials if show_all else _most_telling(found)))
    if len(found.trials) > _SHOWN and not show_all:
        click.echo(f"{len(found.trials) - _SHOWN} more: --all lists them.")
    return ExitCode.OK


def _shown_sweep(found: Sweep, file: str) -> str:
    best = found.best()
    counts: dict[str, int] = {}
    for trial in found.trials:
        counts[trial.state] = counts.get(trial.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none yet"
    return fmt.pairs(
        [
            ("sweep", f"{found.name} ({found.sweep_id[-6:]})"),
            ("state", f"{found.state}{': ' + fmt.one_line(found.reason) if found.reason else ''}"),
            ("trials", f"{len(found.trials)} of {found.budget}: {told}"),
            (
                "objective",
                f"{found.spec.direction} {fmt.one_line(found.spec.metric)}, mean of the last {found.spec.last}",
            ),
            ("best", f"trial {best.number}: {_number(best.value)}, {_params(best)}" if best else "none yet"),
            ("study", file),
        ]
    )


def _most_telling(found: Sweep) -> Sequence[Trial]:
    ranked = found.ranked()
    rest = [trial for trial in found.trials if trial.value is None]
    return [*ranked, *reversed(rest)][:_SHOWN]


def _trials_table(found: Sweep, trials: Sequence[Trial]) -> str:
    names = list(found.spec.space)
    rows = [
        [
            str(trial.number),
            str(trial.state),
            _number(trial.value if trial.value is not None else _last_seen(trial)),
            str(sum(seed.value is not None for seed in trial.seeds)),
            f"{trial.seeds[0].steps:,}",
            *(fmt.one_line(str(_short(trial.params.get(name)))) for name in names),
            fmt.one_line(trial.reason),
        ]
        for trial in trials
    ]
    headers = ["TRIAL", "STATE", "VALUE", "SEEDS", "STEPS", *names, "WHY"]
    return fmt.table(headers, rows, right=frozenset({"TRIAL", "VALUE", "SEEDS", "STEPS"}), give_way="WHY")


def _last_seen(trial: Trial) -> float | None:
    return trial.rungs[-1][1] if trial.rungs else None


def _number(value: float | None) -> str:
    return fmt.MISSING if value is None else f"{value:.4g}"


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _params(trial: Trial) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in trial.params.items())


def _show_study(file: Path, *, show_all: bool, as_json: bool) -> int:
    from gym_gui.services.sweeps.foreign_studies import StudyError, read_studies

    try:
        studies = read_studies(file)
    except StudyError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    if as_json:
        fmt.echo_json({"studies": [_study_object(one) for one in studies]})
        return ExitCode.OK
    if not studies:
        click.echo(f"{file} holds no study yet.")
    for one in studies:
        ranked = one.ranked()
        click.echo(f"{fmt.one_line(one.name)}: {fmt.counted(len(one.trials), 'trial')}, {len(ranked)} complete")
        listed = [*ranked, *(trial for trial in one.trials if trial not in ranked)] if show_all else ranked[:_SHOWN]
        rows = [
            [
                str(trial.number),
                trial.state,
                ", ".join(_number(value) for value in trial.values) or fmt.MISSING,
                fmt.one_line(", ".join(f"{name}={_short(value)}" for name, value in trial.params.items())),
            ]
            for trial in listed
        ]
        click.echo(fmt.table(["TRIAL", "STATE", "VALUE", "SETTINGS"], rows, give_way="SETTINGS"))
    return ExitCode.OK


def _study_object(one: ForeignStudy) -> dict[str, Any]:
    import math

    return {
        "name": one.name,
        "directions": list(one.directions),
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "values": [value if math.isfinite(value) else None for value in trial.values],
                "params": trial.params,
            }
            for trial in one.trials
        ],
    }


def _followed(client: TrainerClient, reference: str, *, as_json: bool) -> int:
    """Tell of every trial that ends until the sweep is over; the exit code says how. Ctrl-C leaves the sweep alone."""
    from gym_gui.services.sweeps.model import OPEN
    from gym_gui.services.sweeps.report import report_of, sentences

    known: dict[int, str] = {}
    while True:
        found = client.sweep(reference)
        for trial in found.trials:
            if known.get(trial.number) != trial.state:
                known[trial.number] = trial.state
                if not as_json and trial.state not in OPEN:
                    value = trial.value if trial.value is not None else _last_seen(trial)
                    why = f" ({fmt.one_line(trial.reason)})" if trial.reason else ""
                    click.echo(f"trial {trial.number}: {trial.state} {_number(value)}  {_params(trial)}{why}")
        if found.is_over:
            break
        time.sleep(_POLL_SECONDS)
    if as_json:
        fmt.echo_json(report_of(found))
    else:
        best = found.best()
        end = f": {fmt.one_line(found.reason)}" if found.reason else ""
        click.echo(f"The sweep {found.name} is over, {found.state}{end}.")
        if best is not None:
            click.echo(f"Best: trial {best.number} with {_number(best.value)}, {_params(best)}")
        for note in sentences(found):
            click.echo(f"Note: {fmt.one_line(note)}")
    return _CODES[found.state]


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
                **_sweep_object(one),
                "trials": dict(message.trials),
                "best": trial_object(decode_trial(message.best)) if message.best else None,
            }
            for one, message in found
        ]
        fmt.echo_json({"sweeps": listed})
    elif not found:
        click.echo(f"There are no sweeps yet: `{program()} sweep --help` says how to start one.")
    else:
        rows = [_list_row(one, message) for one, message in found]
        click.echo(fmt.table(["ID", "NAME", "STATE", "TRIALS", "BEST", "AGE"], rows, give_way="NAME"))
    return ExitCode.OK


def _list_row(found: Sweep, message: pb.Sweep) -> list[str]:
    from gym_gui.services.sweeps.model import decode_trial

    best = decode_trial(message.best).value if message.best else None
    counted = f"{sum(message.trials.values())} of {found.budget}"
    return [
        found.sweep_id[-6:],
        fmt.one_line(found.name),
        str(found.state),
        counted,
        _number(best),
        fmt.ago(found.created_at),
    ]


def _sweep_object(found: Sweep) -> dict[str, Any]:
    spec = found.spec
    return {
        "id": found.sweep_id,
        "name": found.name,
        "state": str(found.state),
        "reason": found.reason,
        "budget": found.budget,
        "metric": spec.metric,
        "direction": spec.direction,
        "sampler": spec.sampler,
        "pruner": spec.pruner,
        "rungs": list(spec.rungs),
        "seeds": list(spec.seeds),
        "parallel": spec.parallel,
        "created_at": found.created_at,
        "ended_at": found.ended_at or None,
    }


# ---- pause, resume, stop -----------------------------------------------------------------------------------------


def _tell(found: Sweep, sentence: str, *, as_json: bool) -> int:
    if as_json:
        fmt.echo_json(_sweep_object(found))
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

    It was paused or stopped. Trials that a stop interrupted go on from their checkpoints. A sweep that is over needs --budget.
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
@sweep_argument
@json_option
@click.pass_obj
def report(session: CliSession, sweep: str, as_json: bool) -> int:
    """Say what a sweep found, what it cost, and what pruning saved."""
    from gym_gui.services.sweeps.report import report_of

    with session.client() as client:
        found = client.sweep(sweep)
        file = client.sweep_message(sweep).study_file
    told = report_of(found)
    if as_json:
        fmt.echo_json(told)
        return ExitCode.OK
    click.echo(_shown_sweep(found, file))
    click.echo(fmt.pairs([("trained", f"{told['seconds_trained'] / 60:,.1f} minutes in all")]))
    for note in told["notes"]:
        click.echo(f"Note: {fmt.one_line(note)}")
    return ExitCode.OK


@sweep.command()
@sweep_argument
@click.argument("count", metavar="[K]", type=Count(1, 100), default=1)
@click.option("--seeds", type=Count(1, 1000), default=5, show_default=True, help="Fresh seeds for each.")
@click.option(
    "--first-seed", type=Count(0, LARGEST_SEED - 1000), default=100_001, show_default=True, help="The first of them."
)
@click.option("--no-wait", is_flag=True, help="Start the runs and return; the same command reports later.")
@json_option
@click.pass_obj
def best(session: CliSession, sweep: str, count: int, seeds: int, first_seed: int, no_wait: bool, as_json: bool) -> int:
    """Measure the best settings on fresh seeds.

    The best K are run beside the default ones, and compared. The value that a trial won with is the highest of many; on seeds that the sweep never saw it is an honest one. The
    same command given again starts nothing twice.
    """
    from gym_gui.services.sweeps import fresh_seeds

    with session.client() as client:
        found = client.sweep(sweep)
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
        told = fresh_seeds.measured(client, found, _until_over(client, runs))
    if as_json:
        fmt.echo_json(
            {"sweep": found.name, "metric": found.spec.metric, "contenders": [_measured_object(one) for one in told]}
        )
    else:
        click.echo(_measured_text(found, told, seeds))
    return ExitCode.OK


def _until_over(client: TrainerClient, runs: Mapping[Contender, Sequence[str]]) -> dict[Contender, list[pb.Run]]:
    while True:
        found = {who: [client.run(run_id) for run_id in members] for who, members in runs.items()}
        if all(run.state == "TERM" for members in found.values() for run in members):
            return found
        time.sleep(_POLL_SECONDS)


def _measured_object(one: Measured) -> dict[str, Any]:
    def shown(estimate: Any) -> dict[str, Any] | None:
        return {"value": estimate.value, "low": estimate.low, "high": estimate.high} if estimate else None

    return {
        "label": one.contender.label,
        "trial": one.contender.trial.number if one.contender.trial else None,
        "params": dict(one.contender.params),
        "values": list(one.values),
        "left_out": list(one.left_out),
        "estimate": shown(one.estimate),
        "beats_default": shown(one.beats_default),
    }


def _measured_text(found: Sweep, told: Sequence[Measured], seeds: int) -> str:
    def shown(estimate: Any) -> str:
        if estimate is None:
            return fmt.MISSING
        if estimate.low is None:
            return f"{estimate.value:.4g}"
        return f"{estimate.value:.4g} [{estimate.low:.4g}, {estimate.high:.4g}]"

    rows = [
        [
            one.contender.label,
            shown(one.estimate),
            shown(one.beats_default),
            ", ".join(f"{value:.4g}" for value in sorted(one.values, reverse=True)),
            ", ".join(f"{name}={_short(value)}" for name, value in one.contender.params.items())
            or "as the script has them",
        ]
        for one in told
    ]
    headers = ["SETTINGS OF", found.spec.objective.upper(), "BEATS THE DEFAULT", "EVERY RUN", "SETTINGS"]
    lines = [
        f"{fmt.one_line(found.spec.metric)}, mean of the last {found.spec.last}, {fmt.counted(seeds, 'fresh seed')}:",
        fmt.table(headers, rows, give_way="SETTINGS"),
    ]
    lines += [f"Note: left out: {fmt.one_line(why)}" for one in told for why in one.left_out]
    if seeds < 5:
        lines.append("Note: with fewer than 5 seeds an interval says little about the next run.")
    return "\n".join(lines)
