"""What those who watch a training see, and that what cannot be drawn costs pictures and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.messages import Speed, State, Tell
from mosaic_protocol.mind import AgentMind, Mind
from mosaic_worker.training.episode_digest import EpisodeDigest
from mosaic_worker.training.watching import (
    FRAMES_A_SECOND,
    LARGEST_SHARE,
    LONGEST_WAIT,
    Minds,
    TrainingWatch,
    drawing,
)

HANG_SECONDS = 30.0


@contextmanager
def watched(
    folder: Path, picture: Callable[[], Any], minds: Minds | None = None
) -> Iterator[tuple[TrainingWatch, LiveClient, list[int]]]:
    woken: list[int] = []
    with (
        closing(TrainingWatch(folder, "Game-v0", picture, lambda: woken.append(1), minds)) as watch,
        closing(LiveClient(folder)) as client,
    ):
        client.wait_for_hello()
        yield watch, client, woken


def seen(watch: TrainingWatch, client: LiveClient, digest: EpisodeDigest, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    step = 0
    while not probe():
        assert time.monotonic() < deadline, client.state
        step += 1
        assert watch.look(step, 123.0, digest)
        client.receive(0.01)


def test_nobody_is_told_before_somebody_comes(tmp_path: Path) -> None:
    drawn: list[int] = []
    with closing(TrainingWatch(tmp_path, "Game-v0", lambda: drawn.append(1), lambda: None)) as watch:
        assert not any(watch.look(step, 1.0, EpisodeDigest()) for step in range(100))
    assert not drawn


def test_figures_and_pictures_come_while_somebody_watches(tmp_path: Path) -> None:
    digest = EpisodeDigest()
    for number in range(3):
        digest.note(number, 10.0 * number)
    drawn: list[int] = []

    def picture() -> Any:
        drawn.append(1)
        return np.full((4, 6, 3), 9, np.uint8)

    began = time.monotonic()
    with watched(tmp_path, picture) as (watch, client, woken):
        seen(watch, client, digest, lambda: client.frame() is not None)
        assert woken, "the training thread was told to look up"
        state = client.state
        assert (state.rate, state.mean, state.best, state.total, state.episodes) == (123.0, 10.0, 20.0, 20.0, 3)
        seen(watch, client, digest, lambda: len(drawn) > 5)
    assert len(drawn) <= (time.monotonic() - began) * FRAMES_A_SECOND + 1, "no more often than a screen shows it"


def test_pictures_that_take_long_have_a_twentieth_of_the_time_and_the_figures_go_on(tmp_path: Path) -> None:
    now, drawn, told = 0.0, 0, 0

    def slow() -> Any:
        nonlocal now, drawn
        now, drawn = now + 0.4, drawn + 1
        return np.zeros((4, 6, 3), np.uint8)

    with (
        closing(TrainingWatch(tmp_path, "Game-v0", slow, lambda: None, clock=lambda: now)) as watch,
        closing(LiveClient(tmp_path)) as client,
    ):
        client.wait_for_hello()
        publish = watch._server.publish

        def counted(state: State) -> None:
            nonlocal told
            told += 1
            publish(state)

        watch._server.publish = counted  # type: ignore[method-assign]
        while now < 100:
            assert watch.look(1, 1.0, EpisodeDigest())
            now += 0.005
    assert drawn >= 10 and (drawn - 1) * 0.4 <= 100 * LARGEST_SHARE + 0.4, "the first one loads what draws"
    assert told >= 100 / LONGEST_WAIT - drawn


def test_what_cannot_be_drawn_is_said_once_and_the_figures_go_on(tmp_path: Path) -> None:
    asked: list[int] = []

    def broken() -> Any:
        asked.append(1)
        raise RuntimeError("no\ndisplay")

    with watched(tmp_path, broken) as (watch, client, _):
        seen(watch, client, EpisodeDigest(), lambda: client.state.problem and client.state.steps > 3)
        assert client.state.problem == "the environment cannot be drawn: RuntimeError: no display"
    assert asked == [1]


def test_an_environment_is_drawn_that_was_not_made_for_it() -> None:
    with gym.make("FrozenLake-v1") as lake, gym.make("CartPole-v1") as pole:
        for env in (lake, pole):
            env.reset(seed=1)
            drawn = drawing(env)()
            assert drawn.ndim == 3 and drawn.dtype == np.uint8
            assert env.unwrapped.render_mode is None, "as it was"


class OneAgent:
    names = ("learner",)

    def __init__(self) -> None:
        self.told: list[Tell] = []

    def seen(self) -> tuple[AgentMind, ...]:
        return (AgentMind("learner", 7, Mind(plan="explore")),)

    def tell(self, told: Tell) -> str:
        self.told.append(told)
        return "" if told.text == "slippery" else "line 1: no term begins like this"


def test_minds_are_seen_and_told_something(tmp_path: Path) -> None:
    agent = OneAgent()
    with watched(tmp_path, lambda: None, agent) as (watch, client, _):
        assert client.hello is not None and client.hello.agents == ("learner",)
        seen(watch, client, EpisodeDigest(), lambda: client.state.mind)
        assert client.state.mind == agent.seen()
        client.send(Tell("slippery"))
        client.send(Tell("slip("))
        client.send(Speed(2.0))
        seen(watch, client, EpisodeDigest(), lambda: len(client.refusals) == 2)
        assert [one.text for one in agent.told] == ["slippery", "slip("]
        assert "no term" in client.refusals[0] and "this run trains" in client.refusals[1]


def test_a_sentence_that_agents_stumble_over_ends_nothing(tmp_path: Path) -> None:
    class Stumbling(OneAgent):
        def tell(self, told: Tell) -> str:
            if told.text == "bad":
                raise UnicodeDecodeError("utf-8", b"x", 0, 1, "what is that")
            return super().tell(told)

    minds = Stumbling()
    with watched(tmp_path, lambda: None, minds) as (watch, client, _):
        client.send(Tell("bad"))
        seen(watch, client, EpisodeDigest(), lambda: client.refusals)
        assert "what is that" in client.refusals[0]
        client.send(Tell("slippery"))
        seen(watch, client, EpisodeDigest(), lambda: minds.told)


def test_a_run_without_minds_is_told_nothing(tmp_path: Path) -> None:
    with watched(tmp_path, lambda: None) as (watch, client, _):
        client.send(Tell("slippery"))
        seen(watch, client, EpisodeDigest(), lambda: client.refusals)
        assert "no agent" in client.refusals[0] and client.state.mind is None
