"""``mosaic plot``: metrics of runs as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gym_gui.cli import candidates, out_file
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count
from gym_gui.cli.session import CliSession, named_run
from mosaic_protocol.headline import RETURN_TAG

if TYPE_CHECKING:
    from gym_gui.services.charts.panels import Sheet
    from gym_gui.services.run_plots import Subject
    from gym_gui.services.trainer.client import TrainerClient


@click.command()
@click.argument("words", metavar='RUN|EXPR [as "LABEL"]...', nargs=-1, required=True, shell_complete=candidates.runs)
@out_file.out_option("Where to write it: a name that ends in .png or .svg.")
@click.option("--tag", "tags", metavar="T", multiple=True, help=f"A metric; may be repeated.  [default: {RETURN_TAG}]")
@click.option(
    "--x",
    "axis",
    type=click.Choice(["step", "time", "cpu"]),
    default="step",
    show_default=True,
    help="Over steps, wall time since the start, or CPU time where it is stored.",
)
@click.option(
    "--smooth",
    type=Count(1, 1_000_000),
    metavar="N",
    help="Mean of the newest N points, the points faint behind; 1: none.  [default: 100 for episodes, else 1]",
)
@click.option("--unfinished", is_flag=True, help="In groups also runs that are not over, failed or were cancelled.")
@click.option(
    "--baselines",
    is_flag=True,
    help="Of one run with a dataset: where it went online, and runs that learned from the data alone.",
)
@click.option("--title", default="", help="A heading.  [default: the environment]")
@out_file.force_option
@out_file.open_option
@click.pass_obj
def plot(
    session: CliSession,
    words: Sequence[str],
    out: Path | None,
    tags: Sequence[str],
    axis: str,
    smooth: int | None,
    unfinished: bool,
    baselines: bool,
    title: str,
    force: bool,
    opens: bool,
) -> None:
    """Draw metrics of runs.

    Each RUN is a line, and so is each run that an expression finds: mosaic plot last 'algo=ppo seed=1..3' --out
    curve.png. An expression with a label is one line, the IQM of its runs with a band: 'algo=ppo as "PPO"'.
    """
    if out is None:
        raise click.UsageError("say where to write the picture, as in --out curve.png")
    out_file.require_numpy("pictures")
    from gym_gui.services.charts import files, panels
    from gym_gui.services.compare.groups import CompareError
    from gym_gui.services.compare.measures import Axis
    from gym_gui.services.run_filter import FilterError
    from gym_gui.services.run_plots import PlotQuestion, plotted

    out_file.require_place(out, files.PICTURES, force=force)
    chosen = list(dict.fromkeys(tags)) or [RETURN_TAG]
    question = PlotQuestion(chosen, Axis(axis), smooth, unfinished, title=fmt.one_line(title))
    try:
        with session.client() as client:
            if baselines:
                sheet, notes = _against_baselines(client, words, question.title), list[str]()
            else:
                sheet, notes = plotted(client, _subjects(client, words), question)
    except (CompareError, FilterError) as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    content = files.picture(panels.arranged(sheet), out.suffix)
    out_file.put(out, content, opens=opens, quiet=False)
    for note in notes:
        click.echo(f"Note: {fmt.one_line(note)}")


def _against_baselines(client: TrainerClient, words: Sequence[str], title: str) -> Sheet:
    """A run's curve against runs that learned from the same dataset alone."""
    from gym_gui.services.offline_course import course_of

    if len(words) != 1:
        raise click.UsageError("--baselines is about one run")
    run = client.run(words[0])
    if not run.dataset:
        raise CliError(f"{run.name} did not learn from a dataset, so it has no offline baselines", ExitCode.REFUSED)
    return course_of(client, run).sheet(title)


def _subjects(client: TrainerClient, words: Sequence[str]) -> list[Subject]:
    """What to draw, every run once. A word that names a run is one, whatever else it could mean."""
    from gym_gui.services.compare.groups import CompareError, Wanted, groups_of, label_in
    from gym_gui.services.run_plots import Subject

    found: list[Subject] = []
    seen: set[str] = set()
    for word in words:
        where, label = label_in(word)
        run = named_run(client, where)
        if run is not None:
            subjects = [Subject(label or run.name, [run])]
        else:
            (group,) = groups_of(client.runs, [Wanted.read(word)])
            subjects = [Subject.of(group)] if label else [Subject(one.name, [one]) for one in reversed(group.runs)]
        for subject in subjects:
            fresh = [one for one in subject.runs if one.run_id not in seen]
            seen.update(one.run_id for one in fresh)
            if len(fresh) == len(subject.runs):
                found.append(subject)
            elif subject.is_group:
                raise CompareError(f"{subject.label!r} has runs that are drawn already: a run belongs to one line")
    return _told_apart(found)


def _told_apart(found: list[Subject]) -> list[Subject]:
    """Runs may have the same name; their ids tell them apart."""
    from dataclasses import replace

    from gym_gui.services.run_words import short_id

    labels = [subject.label for subject in found]
    return [
        subject
        if labels.count(subject.label) == 1
        else replace(subject, label=f"{subject.label} {short_id(subject.runs[0].run_id)}")
        for subject in found
    ]
