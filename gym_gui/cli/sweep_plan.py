"""From a ``mosaic sweep`` command line to what the daemon is asked for: everything is checked, nothing is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count
from gym_gui.cli.run_plan import RunPlan, TrainRequest, make_plan
from gym_gui.cli.script_choice import ScriptChoice, workers_here
from gym_gui.cli.session import CliSession, passing_notice

if TYPE_CHECKING:
    from gym_gui.services.sweeps.cost import SweepCost
    from gym_gui.services.sweeps.model import SweepSpec
    from gym_gui.services.sweeps.space import Space
    from gym_gui.services.trainer.client import TrainerClient


def planned(
    session: CliSession, given: Mapping[str, Any], options: Collection[str | None]
) -> tuple[RunPlan, dict[str, Any] | None]:
    """A run as every trial has it, and the flags of its script; None where the worker cannot tell them. ``options`` of
    the command itself; what else was given are choices of workers."""
    from gym_gui.services.worker_queries import WorkerQueries
    from gym_gui.services.worker_tools import ToolError

    own = set(options) - {"algo", "script_flags", "worker"}
    run_options = {"env_id", "dataset", "seed", "total_timesteps", "preset", "tags", "extras"}
    run_options |= {"cpus", "gpus", "memory_mb", "host", "labels"}
    passed = {name: value for name, value in given.items() if name in run_options or name not in own}
    plan = make_plan(replace(TrainRequest.of(passed), of_command="sweep", run_name="sweep"), workers_here())
    script = ScriptChoice.of(given).chosen(workers_here())
    try:
        with passing_notice("reading the script's flags…"):
            return plan, WorkerQueries(session.paths).describe_flags(
                plan.manifest.type, script.settings(), script.bundle
            )
    except ToolError:
        return plan, None


def specified(plan: RunPlan, given: Mapping[str, Any], described: Mapping[str, Any] | None) -> SweepSpec:
    """What the daemon is asked for. Raises :class:`CliError` for a space that cannot be searched."""
    from gym_gui.services.sweeps.space import SpaceError
    from gym_gui.services.sweeps.spec_check import why_refused, why_unable

    _require_one_objective(given)
    try:
        spec = _spec(plan, _space(given["space"], described), given, described)
    except SpaceError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    if sentence := why_refused(spec) or why_unable(spec, plan.manifest):
        raise CliError(sentence, ExitCode.REFUSED)
    return spec


def _require_one_objective(given: Mapping[str, Any]) -> None:
    """Returns of training and of evaluations are never mixed: who asks for both is asked which."""
    context = click.get_current_context()
    for name in ("metric", "last"):
        if given["evaluate"] and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise CliError(
                f"choose one of --evaluate and --{name}: a sweep is judged by evaluations or by training",
                ExitCode.REFUSED,
            )


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

    total = plan.worker_config.get("total_timesteps") or _default_steps(described)
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
        evaluate=given["evaluate"],
        evaluate_mode=given["evaluate_mode"],
        evaluate_seed=given["evaluate_seed"],
        quantile=given["quantile"],
        perturb=given["perturb"],
        resample=given["resample"],
    )


def _default_steps(described: Mapping[str, Any] | None) -> int:
    flags = described["flags"] if described else ()
    found = next((flag["default"] for flag in flags if flag["name"] == "total_timesteps"), 0)
    return found if isinstance(found, int) else 0


def _rungs(given: Mapping[str, Any], total: int) -> tuple[int, ...]:
    """Those that were asked for, else the usual ones; for pbt every interval."""
    from gym_gui.services.sweeps.wish import WishError, rungs_for

    if given["interval"] and given["pruner"] != "pbt":
        raise CliError("--interval is for a population: give --pruner pbt as well", ExitCode.REFUSED)
    if given["interval"] and given["rungs"]:
        raise CliError("choose one of --interval and --rungs", ExitCode.REFUSED)
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
    try:
        return rungs_for(given["pruner"], total, given["eta"], given["interval"] or 0)
    except WishError as error:
        raise CliError(f"--{error.field} {error}", ExitCode.REFUSED) from None


def check(session: CliSession, plan: RunPlan, spec: SweepSpec, given: Mapping[str, Any]) -> None:
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


def tell_plan(name: str, spec: SweepSpec, expected: SweepCost | None, *, as_json: bool) -> int:
    if as_json:
        import msgspec

        told = None if expected is None else expected.as_object()
        fmt.echo_json({"name": name, "spec": msgspec.to_builtins(spec), "expected": told})
        return ExitCode.OK
    rungs = ", ".join(f"{step:,}" for step in spec.rungs)
    from gym_gui.services.sweeps.report import objective_told

    given = spec.config["metadata"]["worker"]["config"].get("params") or {}
    fixed = [one for one in {**given, **spec.fixed} if one not in spec.space]
    click.echo("This sweep would start:")
    click.echo(
        fmt.pairs(
            [
                ("name", name),
                ("searched", ", ".join(spec.space)),
                ("fixed", ", ".join(fixed) or "nothing"),
                ("objective", fmt.one_line(objective_told(spec))),
                ("trials", f"{spec.trials}, {spec.parallel} at a time, by {spec.sampler}"),
                ("seeds", _seeds_told(spec)),
                ("steps of a run", f"{spec.total_steps:,}" if spec.total_steps else "the script's"),
                ("pruner", f"{spec.pruner}, rungs at steps: {rungs}" if rungs else spec.pruner),
                ("steps in all", "the script knows" if expected is None else expected.steps_told()),
                ("expected", (expected and expected.sentence()) or "not known: this script has not run here before"),
            ]
        )
    )
    warn(expected)
    click.echo("Nothing was started.")
    return ExitCode.OK


def _seeds_told(spec: SweepSpec) -> str:
    if spec.is_population:
        return f"one for each member, from {spec.seeds[0]} on"
    first, *more = spec.seeds
    return f"{first}, then {len(more)} more for trials that get to the end" if more else str(first)


def expected_of(client: TrainerClient | None, plan: RunPlan, spec: SweepSpec) -> SweepCost | None:
    """What the sweep would train and how long that may take; ``client``: None where no daemon runs."""
    from gym_gui.cli.estimates import outlook
    from gym_gui.services.sweeps.cost import cost
    from gym_gui.services.trainer.client import ClientError

    room = 0
    if client is not None:
        try:
            room = client.health(5.0).capacity.cpus // max(1, plan.config["resources"]["cpus"]["requested"])
        except ClientError:
            client = None
    return cost(spec, outlook(client, plan, None).found, room)


def warn(expected: SweepCost | None) -> None:
    if expected is not None and expected.warning:
        click.echo(f"Warning: {expected.warning}", err=True)
