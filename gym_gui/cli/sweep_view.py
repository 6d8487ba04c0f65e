"""Sweeps for people and for programs: tables, sentences, and the objects of ``--json``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.patience import Patient
from gym_gui.cli.session import CliSession

if TYPE_CHECKING:
    from gym_gui.services.sweeps.foreign_studies import ForeignStudy
    from gym_gui.services.sweeps.fresh_seeds import Measured
    from gym_gui.services.sweeps.model import Sweep, Trial
    from mosaic_protocol.proto import trainer_pb2 as pb

SHOWN = 20
_POLL_SECONDS = 0.5
_CODES = {"completed": ExitCode.OK, "failed": ExitCode.FAILED, "stopped": ExitCode.CANCELED}


def shown_sweep(found: Sweep, file: str) -> str:
    from gym_gui.services.sweeps.report import objective_told

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
            ("objective", fmt.one_line(objective_told(found.spec))),
            ("best", f"trial {best.number}: {number(best.value)}, {_params(best)}" if best else "none yet"),
            ("study", file),
        ]
    )


def most_telling(found: Sweep) -> Sequence[Trial]:
    ranked = found.ranked()
    rest = [trial for trial in found.trials if trial.value is None]
    return [*ranked, *reversed(rest)][:SHOWN]


def trials_table(found: Sweep, trials: Sequence[Trial]) -> str:
    names = list(found.spec.space)
    rows = [
        [
            str(trial.number),
            str(trial.state),
            number(trial.value if trial.value is not None else _last_seen(trial)),
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


def number(value: float | None) -> str:
    return fmt.MISSING if value is None else f"{value:.4g}"


def _short(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value


def _params(trial: Trial) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in trial.params.items())


def show_study(file: Path, *, show_all: bool, as_json: bool) -> int:
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
        listed = [*ranked, *(trial for trial in one.trials if trial not in ranked)] if show_all else ranked[:SHOWN]
        rows = [
            [
                str(trial.number),
                trial.state,
                ", ".join(number(value) for value in trial.values) or fmt.MISSING,
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


def followed(session: CliSession, sweep_id: str, *, as_json: bool) -> int:
    """Tell of every trial that ends until the sweep is over; the exit code says how. Ctrl-C leaves the sweep alone, and
    a daemon that is away is waited for."""
    from gym_gui.services.sweeps.model import OPEN
    from gym_gui.services.sweeps.report import report_of, sentences

    known: dict[int, str] = {}
    with Patient(session, "runs go on") as daemon:
        while True:
            found = daemon.ask(lambda client: client.sweep(sweep_id))
            for trial in found.trials:
                if known.get(trial.number) != trial.state:
                    known[trial.number] = trial.state
                    if not as_json and trial.state not in OPEN:
                        value = trial.value if trial.value is not None else _last_seen(trial)
                        why = f" ({fmt.one_line(trial.reason)})" if trial.reason else ""
                        click.echo(f"trial {trial.number}: {trial.state} {number(value)}  {_params(trial)}{why}")
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
            click.echo(f"Best: trial {best.number} with {number(best.value)}, {_params(best)}")
        for note in sentences(found):
            click.echo(f"Note: {fmt.one_line(note)}")
    return _CODES[found.state]


def list_row(found: Sweep, message: pb.Sweep) -> list[str]:
    from gym_gui.services.sweeps.model import decode_trial

    best = decode_trial(message.best).value if message.best else None
    counted = f"{sum(message.trials.values())} of {found.budget}"
    return [
        found.sweep_id[-6:],
        fmt.one_line(found.name),
        str(found.state),
        counted,
        number(best),
        fmt.ago(found.created_at),
    ]


def sweep_object(found: Sweep) -> dict[str, Any]:
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
        "evaluate": spec.evaluate,
        "evaluate_mode": spec.evaluate_mode if spec.evaluate else None,
        "created_at": found.created_at,
        "ended_at": found.ended_at or None,
    }


def measured_object(one: Measured) -> dict[str, Any]:
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


def measured_text(found: Sweep, told: Sequence[Measured], seeds: int) -> str:
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
    from gym_gui.services.sweeps.report import objective_told

    headers = ["SETTINGS OF", found.spec.objective.upper(), "BEATS THE DEFAULT", "EVERY RUN", "SETTINGS"]
    lines = [
        f"{fmt.one_line(objective_told(found.spec))}, {fmt.counted(seeds, 'fresh seed')}:",
        fmt.table(headers, rows, give_way="SETTINGS"),
    ]
    lines += [f"Note: left out: {fmt.one_line(why)}" for one in told for why in one.left_out]
    if any(one.contender.trial and one.contender.trial.turns for one in told):
        lines.append(
            "Note: the settings of a population change while it trains. Here the last ones of each were used from the "
            "beginning: that is another run, and may be worse."
        )
    if seeds < 5:
        lines.append("Note: with fewer than 5 seeds an interval says little about the next run.")
    return "\n".join(lines)
