"""``mosaic tell``: a person tells a running agent what to believe, or what to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option, run_argument
from gym_gui.cli.session import CliSession, run_id_for

if TYPE_CHECKING:
    from mosaic_protocol.live.client import LiveClient
    from mosaic_protocol.live.messages import Hello, State, Tell
    from mosaic_protocol.mind import Said

_ANSWER_SECONDS = 10.0
_PERSON = "person"


@click.command()
@run_argument
@click.argument("text", metavar="TEXT")
@click.option("--goal", "is_goal", is_flag=True, help="It is a goal to pursue, not a belief.")
@click.option("--agent", default="", help="Which one, where several agents take part.  [default: each of them]")
@json_option
@click.pass_obj
def tell(session: CliSession, run: str, text: str, is_goal: bool, agent: str, as_json: bool) -> None:
    """Tell a running agent what to believe, or what to do.

    TEXT is a belief as AgentSpeak writes it, such as slippery or hole(5). The run records it as a message from a
    person, and `mosaic mind RUN` shows the belief.
    """
    from gym_gui.services.live_connection import join_session
    from mosaic_protocol.live.client import SessionAwayError
    from mosaic_protocol.live.messages import Tell

    text = _plain(text)
    with session.client() as client:
        found = client.run(run_id_for(client, run))
    called = run_view.called(found)
    if run_view.is_over(found):
        raise CliError(f"{called} is over: an agent can be told something while it runs", ExitCode.REFUSED)
    if (word := run_view.state_word(found)) in ("queued", "starting"):
        raise CliError(f"{called} is {word}: its agents listen once it trains, so try again then", ExitCode.REFUSED)
    try:
        with join_session(session.paths, found.run_id) as live:
            hello = live.wait_for_hello()
            _require_agent(hello, agent, called)
            told = _told(live, Tell(text, "goal" if is_goal else "belief", agent))
    except SessionAwayError as error:
        raise CliError(f"{called} does not listen: {error}", ExitCode.REFUSED) from error
    if as_json:
        fmt.echo_json({"run_id": found.run_id, "text": text, "kind": "goal" if is_goal else "belief", "agents": told})
        return
    click.echo(f"{', '.join(map(fmt.one_line, told))}: {'pursues' if is_goal else 'believes'} {fmt.one_line(text)}")


def _plain(text: str) -> str:
    """The belief or goal itself, as the agent's answer will show it. Raises CliError for the signs of a plan's body."""
    text = text.strip().removesuffix(".").rstrip()
    if text.startswith(("!", "+", "-")):
        plain = text.lstrip("!+- ") or "slippery"
        how = f"--goal {plain!r}" if text.startswith("!") else repr(plain)
        raise CliError(f"the sign {text[0]!r} belongs into plans: tell {how} here", ExitCode.REFUSED)
    return text


def _require_agent(hello: Hello, agent: str, called: str) -> None:
    from mosaic_protocol.suggest import did_you_mean

    if not hello.agents:
        sentence = f"{called} has no agents that can be told something: only workers with beliefs have"
        raise CliError(sentence, ExitCode.REFUSED)
    if agent and agent not in hello.agents:
        sentence = f"{called} has no agent {fmt.one_line(agent)!r}{did_you_mean(agent, hello.agents)}"
        raise CliError(sentence, ExitCode.REFUSED)


def _told(live: LiveClient, said: Tell) -> list[str]:
    """Send it, and wait until the agents that are meant have it among their messages. Raises CliError."""
    assert live.hello is not None
    meant = [said.agent] if said.agent else list(live.hello.agents)
    deadline = time.monotonic() + _ANSWER_SECONDS
    while live.state.mind is None and time.monotonic() < deadline:
        live.receive(timeout=0.2)  # what was said before must be known to tell it from what is said now
    before = _said_by_a_person(live.state)
    live.refusals.clear()
    live.send(said)
    while time.monotonic() < deadline:
        live.receive(timeout=0.2)
        if live.refusals:
            sentence, *excerpt = live.refusals[0].splitlines() or [""]
            raise CliError(sentence, ExitCode.REFUSED, **({"excerpt": excerpt} if excerpt else {}))
        heard = {name for name, _ in _said_by_a_person(live.state) - before}
        if heard.issuperset(meant):
            return meant
    raise CliError(
        f"sent, but the agent has not reacted within {_ANSWER_SECONDS:g} s: it listens between two episodes, and not "
        "while the run is paused",
        ExitCode.FAILED,
    )


def _said_by_a_person(state: State) -> set[tuple[str, Said]]:
    """What the agents heard of a person, each with the agent's name. Their times say nothing: clocks are set."""
    return {
        (agent.name, said)
        for agent in state.mind or ()
        for said in agent.mind.messages
        if said.way == "in" and said.peer == _PERSON
    }
