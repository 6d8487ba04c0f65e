"""``mosaic mind``: what an agent believed, wanted and chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, json_option, run_argument
from gym_gui.cli.session import CliSession, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.minds import MindAt
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.mind import Considered, Intention, Mind, Said

_BAR = 20


@click.command()
@run_argument
@click.option(
    "--episode", type=Count(least=0), help="Which one, by its number in `mosaic episodes`.  [default: the last]"
)
@click.option("--step", "place", type=Count(least=0), help="Of the episode; the first one is 0.  [default: the first]")
@click.option("--agent", help="Which one, where several agents take part.")
@click.option("-f", "--follow", is_flag=True, help="Show the mind of the running agent until the run is over.")
@json_option
@click.pass_obj
def mind(
    session: CliSession,
    run: str,
    episode: int | None,
    place: int | None,
    agent: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show what an agent believed, wanted and chose.

    Its beliefs, goals and intentions, the plan that it chose and why the others did not apply. There is a record for
    the first step of every episode, and in runs with `--mind steps` for each step.
    """
    if follow:
        if as_json or episode is not None or place is not None:
            raise click.UsageError("--follow shows the newest episode: it takes neither --episode, --step nor --json")
        if not fmt.is_terminal():
            raise click.UsageError("--follow draws on a terminal: leave it out for one look at the mind")
        _follow(session, run, agent)
        return
    from gym_gui.services.minds import mind_at

    with session.client() as client:
        found = _minds(client, run_id_for(client, run), episode, agent)
    if as_json:
        shown = found if place is None else [mind_at(found, place)]
        fmt.echo_json([one.to_object() for one in shown])
        return
    click.echo(text_of(mind_at(found, place or 0), len(found)))


def _minds(client: TrainerClient, run_id: str, episode: int | None, agent: str | None) -> list[MindAt]:
    from gym_gui.services import minds, recorded_steps

    source = recorded_steps.of_run(client, client.run(run_id))
    try:
        wanted = minds.newest_episode(source, client.steps(run_id, tail=1), agent) if episode is None else episode
        return minds.minds_of(source, wanted, agent)
    except minds.NoMindError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error


def _follow(session: CliSession, run: str, agent: str | None) -> None:
    from gym_gui.cli.watch import Watch

    with session.client() as client:
        run_id = run_id_for(client, run)
        _minds(client, run_id, None, agent)  # what cannot be shown is refused before the screen is taken
    is_over = False

    def picture(client: TrainerClient, room: int) -> str:
        nonlocal is_over
        now = client.run(run_id)
        is_over = run_view.is_over(now)
        shown = text_of(_minds(client, run_id, None, agent)[-1], 1)
        state = f"{run_view.called(now)}: {run_view.state_word(now)}, step {now.last_step:,}"
        return "\n".join([state, *shown.splitlines()][:room])

    hint = "Ctrl-C ends this view, not the run."
    Watch(session, picture, hint, is_last=lambda: is_over).until_interrupted()


# ---- text --------------------------------------------------------------------------------------------------------


def text_of(at: MindAt, records: int) -> str:
    """A mind on a terminal: the choice first, then what it rests on."""
    mind = at.mind
    who = f" of {fmt.one_line(at.agent_id)}" if at.agent_id else ""
    more = f"  ({records} records in this episode)" if records > 1 else ""
    parts = [
        f"episode {at.episode}, step {at.place}{who}{more}",
        _choice(mind),
        _titled("Plans", [_considered(one) for one in mind.considered]),
        _titled("Beliefs", _beliefs(mind)),
        _titled("Intentions", [_intention(one) for one in reversed(mind.intentions)]),
        _titled("Goals", [fmt.one_line(goal) for goal in mind.goals]),
        _titled("Messages", [_said(one) for one in mind.messages]),
        _titled("Problem", [fmt.one_line(mind.problem)] if mind.problem else []),
    ]
    return "\n".join(part for part in parts if part)


def _choice(mind: Mind) -> str:
    share = min(max(mind.confidence, 0.0), 1.0)
    bar = "█" * round(share * _BAR) + "░" * (_BAR - round(share * _BAR))
    values = f"  values {' '.join(fmt.quantity(one) for one in mind.values)}" if mind.values else ""
    plan, goal = fmt.one_line(mind.plan) or fmt.MISSING, fmt.one_line(mind.goal) or fmt.MISSING
    return f"chose {plan} for {goal}\nconfidence {bar} {mind.confidence:.2f}{values}"


def _titled(title: str, lines: list[str]) -> str:
    return "\n".join([fmt.dimmed(title), *(f"  {line}" for line in lines)]) if lines else ""


def _considered(one: Considered) -> str:
    mark = "✗" if one.why_not else "✓"
    context = f"  [{fmt.one_line(one.context)}]" if one.context else ""
    why = f"  {fmt.one_line(one.why_not)}" if one.why_not else ""
    return f"{mark} {fmt.one_line(one.plan)}{context}{why}"


def _beliefs(mind: Mind) -> list[str]:
    new = set(map(str, mind.added))
    held = [("+" if str(one) in new else " ", one) for one in mind.beliefs]
    lines = [("-", one) for one in mind.removed] + held
    texts = [(mark, fmt.one_line(one.text), fmt.one_line(one.source)) for mark, one in lines]
    width = max((fmt.cells(text) for _, text, _ in texts), default=0)
    return [
        f"{mark} {text}{' ' * (width - fmt.cells(text))}  {fmt.dimmed(source)}".rstrip() for mark, text, source in texts
    ]


def _intention(one: Intention) -> str:
    doing = f": {fmt.one_line(one.doing)}" if one.doing else ""
    waits = " (waits)" if one.waits else ""
    return f"{fmt.one_line(one.goal)} by {fmt.one_line(one.plan)}{doing}{waits}"


def _said(one: Said) -> str:
    arrow = "←" if one.way == "in" else "→"
    return f"{arrow} {fmt.one_line(one.peer)} {fmt.one_line(one.performative)} {fmt.one_line(one.text)}"
