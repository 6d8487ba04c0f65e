"""A policy in the seat: what it draws depends on the seed of the episode alone, and it never outlives its seat."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.policy_actor import PolicyActor
from play_worker.tests.by_hand import HANG_GUARD
from play_worker.tests.dropped import dropped_policies


def wait_for(what: str, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """An actor on the way into a seat, with what its policy does while it is loaded and before each answer."""

    @contextmanager
    def made(loading: str = "", thinking: str = "") -> Iterator[tuple[PolicyActor, gym.Env[Any, Any]]]:
        workers = dropped_policies(tmp_path / "workers", thinking)
        (policies,) = workers.glob("*/policies.py")
        policies.write_text(f"{policies.read_text()}\n{loading}\n")
        monkeypatch.setenv("MOSAIC_WORKER_PATH", str(workers))
        env = gym.make("CartPole-v1")
        checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
        actor = PolicyActor(checkpoint, env, lambda: None, deterministic=False)
        try:
            yield actor, env
        finally:
            actor.close()
            actor.join()
            env.close()

    return made


def test_what_is_asked_again_before_a_step_is_drawn_as_at_first(loaded: Callable[..., Any]) -> None:
    with loaded() as (actor, env):
        wait_for("the policy", lambda: actor.is_ready or actor.failure)
        observation, _ = env.reset(seed=1)

        def asked() -> Any:
            actor.consider(observation, plays=True)
            wait_for("an answer", lambda: actor.opinion is not None)
            return int(actor.opinion.action)

        drawn = []
        for seed in range(12):
            actor.begin_episode(seed)
            first = asked()
            drawn.append((first, asked()))
            assert int(actor.action(observation)) == drawn[-1][1], "now it is used"
            actor.forget()
        assert [one for one, _ in drawn] == [again for _, again in drawn] and len({*drawn}) == 2
        actor.begin_episode(0)
        asked()
        actor.action(observation)
        assert len({asked() for _ in range(20)}) == 2, "after it was used, the draws go on"


@pytest.mark.parametrize("where", ["loading", "thinking"])
def test_a_policy_that_hangs_ends_with_its_seat(where: str, loaded: Callable[..., Any], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    hang = f"open({str(note)!r}, 'w').write(str(__import__('os').getpid())); __import__('time').sleep(3600)"
    with loaded(**{where: hang}) as (actor, env):
        if where == "thinking":
            wait_for("the policy", lambda: actor.is_ready or actor.failure)
            actor.consider(env.reset(seed=1)[0], plays=True)
        wait_for("its silence", lambda: note.exists() and note.read_text())
        process = ProcessIdentity.of(int(note.read_text()))
        assert process is not None and process.is_alive()
        actor.close()
        wait_for("its end", lambda: not process.is_alive() and not actor._thread.is_alive())
        assert not actor.failure, "it was sent away"
