"""``mosaic compare``: what groups of runs reached over their seeds, with intervals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import out_file
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, json_option
from gym_gui.cli.session import CliSession

if TYPE_CHECKING:
    from gym_gui.services.compare.comparison import Comparison, Question
    from gym_gui.services.compare.groups import Group
    from gym_gui.services.compare.statistics import Reference

_REFERENCE = re.compile(r"(.+)=([^:=]+):([^:=]+)")
_MOST_SAMPLES = 100_000


@click.command()
@click.argument("expressions", metavar='[EXPR [as "LABEL"]]...', nargs=-1)
@click.option("--each", metavar="FIELD", help="One group for each value of a field or a setting.  [default: algo]")
@click.option(
    "--by",
    type=click.Choice(["training", "evaluation"]),
    default="training",
    show_default=True,
    help="Mean of the last 100 returns of training, or the newest evaluation.",
)
@click.option("--at", type=Count(), metavar="STEP", help="Compare training at this step instead of at the end.")
@click.option("--unfinished", is_flag=True, help="Also runs that are not over, failed or were cancelled.")
@click.option("--mixed", is_flag=True, help="Compare the environments that all groups have, where they differ.")
@click.option(
    "--reference",
    "references",
    metavar="ENV=LOW:HIGH",
    multiple=True,
    help="Returns that count as 0 and as 1, to put several environments together.",
)
@click.option(
    "--samples", type=Count(100, _MOST_SAMPLES), default=2000, show_default=True, help="Resamples for the intervals."
)
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print every run with its score.")
@click.option("--latex", "as_latex", is_flag=True, help="Print a table for a paper (booktabs).")
@out_file.out_option("Also write a file: .html (a report to mail), .png, .svg, .csv, .tex or .json.")
@out_file.force_option
@out_file.open_option
@click.pass_obj
def compare(
    session: CliSession,
    expressions: Sequence[str],
    each: str | None,
    by: str,
    at: int | None,
    unfinished: bool,
    mixed: bool,
    references: Sequence[str],
    samples: int,
    as_json: bool,
    as_csv: bool,
    as_latex: bool,
    out: Path | None,
    force: bool,
    opens: bool,
) -> None:
    """Compare groups of runs over their seeds.

    Several expressions are a group each: mosaic compare 'algo=ppo env=CartPole* as "PPO"' 'algo=dqn env=CartPole*'.
    With one that has no name, or none, there is a group for each algorithm, or for each value of --each.

    IQM is the mean of the middle half of the runs. Intervals are 95 % of a stratified bootstrap; of a single run there
    is none. What weakens a comparison is said below it.
    """
    out_file.require_numpy("comparisons")
    from gym_gui.services.compare.comparison import Question
    from gym_gui.services.compare.files import FORMATS
    from gym_gui.services.compare.measures import By

    if as_json + as_csv + as_latex > 1:
        raise click.UsageError("choose one of --json, --csv and --latex")
    if at is not None and by != By.TRAINING:
        raise click.UsageError("--at is a step of training: leave it out with --by evaluation")
    if each and len(expressions) > 1:
        raise click.UsageError("--each makes groups of one expression; several expressions are a group each")
    if out is not None:
        out_file.require_place(out, FORMATS, force=force)
    elif opens or force:
        raise click.UsageError("--open and --force are about a file: name it with --out")
    question = Question(By(by), at, dict(map(_reference, references)), mixed, samples)
    found = _compared(session, expressions, each, question, unfinished=unfinished)
    _tell(found, as_json=as_json, as_csv=as_csv, as_latex=as_latex)
    if out is not None:
        out_file.put(out, _content(found, out), opens=opens, quiet=as_json or as_csv or as_latex)


def _content(found: Comparison, out: Path) -> bytes:
    from gym_gui.services.compare import files, page

    return files.content(found, out, page.About(out_file.command_line(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))


def _reference(text: str) -> tuple[str, Reference]:
    from gym_gui.services.compare.statistics import Reference

    found = _REFERENCE.fullmatch(text)
    try:
        if found is None:
            raise ValueError("it has no such form")
        return found[1], Reference(float(found[2]), float(found[3]))
    except ValueError as error:
        sentence = f"--reference takes ENV=LOW:HIGH, as in CartPole-v1=20:500; {text[:60]!r} does not fit: {error}"
        raise CliError(sentence, ExitCode.REFUSED) from None


def _compared(
    session: CliSession, expressions: Sequence[str], each: str | None, question: Question, *, unfinished: bool
) -> Comparison:
    from gym_gui.services.compare.groups import CompareError
    from gym_gui.services.compare.of_runs import measured_and_compared
    from gym_gui.services.run_filter import FilterError

    try:
        with session.client() as client:
            groups = _groups(client.runs, expressions, each)
            return measured_and_compared(client, session.paths, groups, question, unfinished=unfinished)
    except (CompareError, FilterError) as error:
        raise CliError(str(error), ExitCode.REFUSED) from error


def _groups(listing: Any, expressions: Sequence[str], each: str | None) -> list[Group]:
    from gym_gui.services.compare.groups import Wanted, groups_by, groups_of

    wanted = [Wanted.read(text) for text in expressions]
    if len(wanted) > 1 or (wanted and wanted[0].is_named and each is None):
        return groups_of(listing, wanted)
    if wanted and wanted[0].is_named:
        raise click.UsageError("--each names its groups by their values: leave the name behind as out")
    return groups_by(listing, wanted[0].where if wanted else "", each or "algo")


# ---- what is shown -----------------------------------------------------------------------------------------------


def _tell(found: Comparison, *, as_json: bool, as_csv: bool, as_latex: bool) -> None:
    from gym_gui.services.compare import files, report

    if as_json:
        fmt.echo_json(report.as_object(found))
    elif as_csv:
        click.echo(files.csv_text(found), nl=False)
    elif as_latex:
        click.echo(report.latex(found), nl=False)
    else:
        click.echo(text_of(found))


def text_of(found: Comparison) -> str:
    """What is compared, a line for each group, every score, who beats whom, and what weakens it."""
    parts = [_heading(found), _groups_table(found), _scores(found)]
    if len(found.groups) > 1:
        parts.append(_improvements(found))
    if found.notes:
        parts.append("\n".join(f"Note: {fmt.one_line(note)}" for note in found.notes))
    return "\n\n".join(parts)


def _heading(found: Comparison) -> str:
    what = {
        "training": "mean of the last 100 returns of training",
        "evaluation": "mean return of the newest evaluation",
    }
    where = f" at step {found.at:,}" if found.at is not None else ""
    scale = ", normalised" if found.is_normalised else ""
    return f"{', '.join(map(fmt.one_line, found.environments))}: {what[found.by]}{where}{scale}"


def _groups_table(found: Comparison) -> str:
    from gym_gui.services.compare.report import NAMES, interval

    columns = list(found.groups[0].estimates)
    headers = ["GROUP", "RUNS", *(NAMES[name].upper() for name in columns)]
    lines = [
        [fmt.one_line(group.label), str(len(group.runs)), *(interval(group.estimates[name]) for name in columns)]
        for group in found.groups
    ]
    return fmt.table(headers, lines, right=frozenset({"RUNS"}), give_way="GROUP")


def _scores(found: Comparison) -> str:
    """Each run is shown: an interval of five numbers hides little that five numbers do not say better."""
    from gym_gui.services.compare.report import figure

    lines = []
    for group in found.groups:
        for name, members in group.counting.items():
            where = f" {name}" if len(found.environments) > 1 else ""
            values = ", ".join(figure(one.score) for one in sorted(members, key=lambda one: -one.score))
            lines.append(f"{fmt.one_line(group.label)}{where}: {values}")
    return "\n".join(["Every run:", *(f"  {line}" for line in lines)])


def _improvements(found: Comparison) -> str:
    from gym_gui.services.compare.report import interval

    lines = [
        [fmt.one_line(one), fmt.one_line(other), interval(estimate)]
        for (one, other), estimate in found.improvements.items()
        if estimate.value >= 0.5 and not (estimate.value == 0.5 and one > other)
    ]
    return fmt.table(["A RUN OF", "BEATS ONE OF", "WITH PROBABILITY"], lines, give_way="A RUN OF")
