"""Language models under a daemon: a daemon or a worker that is killed in the middle of a call, and a person who takes
over."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from gym_gui.tests.support.live_sessions import until, watched
from llm_worker.client.ledger import read_ledger, tokens_of
from llm_worker.tests.scripted_server import KEY, Script, serving
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.checkpoint_manifest import list_checkpoints
from mosaic_protocol.dialogue import DIALOGUE, DialogueReader, Exchange
from mosaic_protocol.live.client import LiveClient
from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import GIVE_BACK, TAKE_OVER, Said

pytestmark = pytest.mark.usefixtures("workers_train")

IN_FLIGHT = 4
"""The request that waits: the probe was the first one."""


@pytest.fixture
def daemon(make_daemon: Callable[..., DaemonProcess], monkeypatch: pytest.MonkeyPatch) -> DaemonProcess:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return make_daemon(handshake_seconds=240, liveness_seconds=240).start()


class Server:
    """One whose fifth request is answered when the test says so."""

    def __init__(self, url: str, script: Script, gate: threading.Event) -> None:
        self.url, self.script, self.gate = url, script, gate

    @property
    def count(self) -> int:
        return len(self.script.asked)


@pytest.fixture
def server() -> Iterator[Server]:
    gate = threading.Event()
    script = Script(keeps=("grammar",), faults={IN_FLIGHT: {"gate": gate}})
    with serving(script) as url:
        try:
            yield Server(url, script, gate)
        finally:
            gate.set()


def submit(daemon: DaemonProcess, url: str, start: dict[str, Any] | None = None, **params: Any) -> str:
    worker = {"type": "llm", "module": "llm_worker.cli"}
    given = {"model": "m", "base_url": url, "is_slippery": False, "episodes": 2, "cache": False, **params}
    config = {"algo": "direct", "env_id": "FrozenLake-v1", "seed": 7, "params": given}
    described = {
        "run_name": "llm",
        "resources": {"cpus": {"requested": 1}},
        "artifacts": {"tensorboard": {"enabled": False}},
        "metadata": {"worker": {**worker, "config": config | ({"start": start} if start else {})}},
    }
    return daemon.client.submit(described).run.run_id


def dialogue(daemon: DaemonProcess, run_id: str) -> list[Exchange]:
    """What was asked and answered at each step, as the store has it."""
    reader = DialogueReader()
    return [reader.take(step.info[DIALOGUE]) for step in daemon.client.steps(run_id)]


def trajectory(daemon: DaemonProcess, run_id: str) -> list[tuple[Any, ...]]:
    steps = daemon.client.steps(run_id)
    return [(step.episode, step.observation, step.action, step.reward, step.terminated) for step in steps]


def test_a_daemon_that_dies_in_mid_call_costs_no_request_and_no_step(daemon: DaemonProcess, server: Server) -> None:
    run_id = submit(daemon, server.url)
    wait_for("the call in flight", lambda: server.count > IN_FLIGHT)
    daemon.kill()
    daemon.start()
    wait_for("the worker", lambda: daemon.client.run(run_id).state == "EXEC")
    server.gate.set()
    assert daemon.wait_over(run_id).outcome == "completed"
    assert server.count == 1 + 12, "a probe, and a call for each step of two episodes"
    assert len(trajectory(daemon, run_id)) == 12
    told = dialogue(daemon, run_id)
    assert all(one.prompt[0].text == told[0].prompt[0].text for one in told)
    assert [one.prompt[-1].text.splitlines()[0] for one in told] == [f"Step {n}." for n in range(6)] * 2
    raw = [step.info[DIALOGUE]["texts"] for step in daemon.client.steps(run_id)]
    assert [len(one) for one in raw[:3]] == [2, 2, 1], "rules and answers are written once an episode"
    tags = ("llm/success", "llm/valid_rate", "llm/calls", "llm/tokens_in", "llm/latency_p95", "llm/cache_hit_rate")
    found = {one.tag: list(one.values) for one in daemon.client.metrics(run_id, tags, max_points=100)}
    assert set(found) == set(tags) and found["llm/success"] == [1.0, 1.0] and found["llm/calls"] == [6.0, 6.0]
    sums = tokens_of(daemon.paths.run(run_id).directory / "llm" / "ledger.jsonl")
    assert sum(found["llm/tokens_in"]) + _probe_tokens(server) == sums["prompt"]


def _probe_tokens(server: Server) -> int:
    return len(server.script.asked[0].question.split())


def test_a_worker_that_dies_in_mid_call_goes_on_with_one_request_more(daemon: DaemonProcess, server: Server) -> None:
    first = submit(daemon, server.url)
    wait_for("the call in flight", lambda: server.count > IN_FLIGHT)
    assert send_signal(worker_of(daemon, first), signal.SIGKILL)
    assert daemon.wait_over(first).outcome in ("failed", "lost")
    server.gate.set()
    mosaic = CommandLine(daemon.paths.root)
    (checkpoint, *_) = reversed(list_checkpoints(daemon.paths.run(first).checkpoints))
    second = submit(daemon, server.url, start={"mode": "resume", "checkpoint": str(checkpoint)})
    assert daemon.wait_over(second).outcome == "completed"
    assert server.count == 1 + 12 + 1, "the call that was in flight is made once more"
    alone = submit(daemon, server.url)
    assert daemon.wait_over(alone).outcome == "completed"
    assert trajectory(daemon, second) == trajectory(daemon, alone)
    lines = read_ledger(daemon.paths.run(second).directory / "llm" / "ledger.jsonl")
    assert [line.source for line in lines if line.source][: IN_FLIGHT - 1] == ["ledger"] * (IN_FLIGHT - 1)
    told = mosaic("logs", second)
    assert "Unsettled" in told.out and "may charge for both" in told.out


def _said(client: LiveClient) -> tuple[Said, ...]:
    return client.state.mind[0].mind.messages if client.state.mind else ()


def _asked(client: LiveClient) -> str:
    """The newest question of somebody who has not answered it."""
    exchange = client.state.mind[0].exchange if client.state.mind else None
    return exchange.prompt[-1].text if exchange is not None and exchange.prompt and not exchange.action else ""


def test_a_person_takes_a_step_from_the_model_and_that_is_recorded(daemon: DaemonProcess, server: Server) -> None:
    run_id = submit(daemon, server.url, episodes=1)
    wait_for("the call in flight", lambda: server.count > IN_FLIGHT)
    with watched(daemon, run_id) as client:
        until(client, "an exchange", lambda: client.state.mind and client.state.mind[0].exchange)
        client.send(Tell(TAKE_OVER, "goal"))
        until(client, "the seat", lambda: client.state.mind and client.state.mind[0].is_held)
        client.send(Tell("left", "goal"))
        until(client, "the word", lambda: "left" in [one.text for one in _said(client)])
        server.gate.set()
        step = IN_FLIGHT - 1
        until(client, "the move", lambda: len(list(daemon.client.steps(run_id))) > step)
        until(client, "the next question", lambda: _asked(client).startswith(f"Step {step + 1}."))
        wait_for("the daemon to hear of a step", lambda: daemon.client.run(run_id).last_step == step + 1)
        client.send(Tell("mind the hole", "belief"))
        client.send(Tell(GIVE_BACK, "goal"))
        assert daemon.wait_over(run_id).outcome == "completed"
    actors = [one.actor for one in daemon.client.steps(run_id)]
    assert actors.count("human") == 1 and actors[step] == "human"
    told = dialogue(daemon, run_id)
    assert (told[step].validity, told[step].action) == ("person", "left")
    assert "the model said: " in told[step].note and told[step].response, "what the model said stands beside it"
    assert "A person tells you: mind the hole" in told[step + 1].prompt[-1].text
    answer = CommandLine(daemon.paths.root)("replay", run_id, "--episode", "0")
    assert answer.code == 0 and "verified" in answer.out, answer
    shown = CommandLine(daemon.paths.root)("replay", run_id, "--episode", "0", "--step", str(step + 1))
    assert "A person tells you: mind the hole" in shown.out and "  system:\n    You cross a frozen lake" in shown.out, (
        shown
    )
