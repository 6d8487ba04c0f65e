"""``mosaic tell``: it ends when the agents that are meant have heard it, or with the reason why not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gym_gui.cli.commands import tell
from gym_gui.cli.errors import CliError
from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Command, Hello, State, Tell
from mosaic_protocol.mind import AgentMind, Mind, Said
from mosaic_worker.live.server import LiveServer

BEFORE = Said("in", "person", "tell", "slippery", 1000.0)


def thinking(**heard: tuple[Said, ...]) -> State:
    return State(mind=tuple(AgentMind(name, mind=Mind(messages=said)) for name, said in heard.items()))


@contextmanager
def listening(folder: Path, answer: Callable[[LiveServer, Tell], None]) -> Iterator[LiveClient]:
    """Two agents, of which one has heard something before."""

    def take(command: Command | None) -> None:
        if isinstance(command, Tell):
            answer(server, command)

    hello = Hello("FrozenLake-v1", "", KeyMap(), False, 5.0, is_training=True, agents=("scout", "learner"))
    with closing(LiveServer(folder, hello, take, lambda: "")) as server:
        server.publish(thinking(scout=(BEFORE,), learner=()))
        with closing(LiveClient(folder)) as client:
            client.wait_for_hello()
            yield client


def test_it_waits_for_all_that_are_meant_whatever_their_clock_says(tmp_path: Path) -> None:
    def answer(server: LiveServer, told: Tell) -> None:
        heard = Said("in", "person", "tell", told.text, 500.0)  # the clock was set back
        server.publish(thinking(scout=(BEFORE, heard), learner=(heard,)))

    with listening(tmp_path, answer) as live:
        assert tell._told(live, Tell("cold")) == ["scout", "learner"]


def test_who_did_not_hear_it_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(server: LiveServer, told: Tell) -> None:
        server.publish(thinking(scout=(BEFORE, Said("in", "person", "tell", told.text, 2000.0)), learner=()))

    monkeypatch.setattr(tell, "_ANSWER_SECONDS", 0.5)
    with listening(tmp_path, answer) as live, pytest.raises(CliError, match="has not reacted"):
        tell._told(live, Tell("cold"))


def test_a_refusal_has_the_place_below_its_sentence(tmp_path: Path) -> None:
    with (
        listening(tmp_path, lambda server, told: server.refuse("expected term\nslip(\n     ^")) as live,
        pytest.raises(CliError) as refused,
    ):
        tell._told(live, Tell("slip("))
    assert str(refused.value) == "expected term" and refused.value.facts["excerpt"] == ["slip(", "     ^"]
