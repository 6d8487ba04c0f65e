"""A watcher without credits is told so, loses exactly what it is told, and disturbs nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gym_gui.services.trainer.client import RequestRefusedError, TrainerClient
from gym_gui.services.trainer.streams import GONE, RESUMED, STARVED, BusEvent, RunBus, StreamControl, Subscription
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from mosaic_protocol.events import EpisodeSummary, TrainingStep
from mosaic_protocol.steps.merging import MOST_STEPS

HANG = 60.0
LIVELY: dict[str, Any] = {"total_timesteps": 10_000_000, "record": 200, "step_seconds": 0.01, "metrics": False}


@pytest.fixture
def bus(daemon: DaemonProcess) -> Iterator[RunBus]:
    with RunBus(daemon.client) as opened:
        yield opened


def stored(daemon: DaemonProcess, run_id: str) -> int:
    return max((step.step + 1 for step in daemon.client.steps(run_id, tail=1)), default=0)


def taken(subscription: Subscription) -> list[BusEvent]:
    """Everything until the stream ends."""
    events: list[BusEvent] = []
    while not subscription.ended:
        if (event := subscription.get(HANG)) is not None:
            events.append(event)
    return events


def test_a_watcher_that_keeps_up_gets_every_step_once(daemon: DaemonProcess, bus: RunBus) -> None:
    run_id = daemon.submit(total_timesteps=20, record=300, step_seconds=0.01)
    # More than there are steps: a busy machine may grant late, and who waits too long is told STARVED.
    steps, episodes = bus.subscribe(run_id, credit=8_000), bus.subscribe(run_id, "episodes", credit=1_000)
    seen = taken(steps)
    assert [event.step for event in seen if isinstance(event, TrainingStep)] == list(range(6000))
    assert len(seen) == 6000 and steps.missed == 0 and not steps.error
    finished = [event.episode for event in taken(episodes) if isinstance(event, EpisodeSummary)]
    assert finished == list(range(600))


class CountingClient(TrainerClient):
    """Knows how many records it has granted."""

    granted = 0

    def grant_credits(self, watch_id: str, credit: int) -> bool:
        self.granted += credit
        return super().grant_credits(watch_id, credit)


def paid(events: list[BusEvent]) -> int:
    """How many records cost a credit: those that came while the stream did not starve."""
    found, starving = 0, False
    for event in events:
        if isinstance(event, StreamControl):
            starving = event.kind == STARVED or (starving and event.kind != RESUMED)
        elif not starving:
            found += 1
    return found


def test_without_credits_a_watcher_hears_starved_then_exactly_what_it_missed(daemon: DaemonProcess) -> None:
    with CountingClient.connect(daemon.paths, start=False) as client, RunBus(client) as bus:
        assert isinstance(client, CountingClient)
        starve_and_resume(daemon, client, bus)


def starve_and_resume(daemon: DaemonProcess, client: CountingClient, bus: RunBus) -> None:
    credit = 300
    run_id = daemon.submit(**LIVELY)
    slow = bus.subscribe(run_id, credit=credit)
    wait_for("far more steps than credits", lambda: stored(daemon, run_id) > 20_000)
    wait_for("the starving", lambda: slow.missed > 0)
    events: list[BusEvent] = []
    while len(slow._waiting) >= credit and (event := slow.get(1.0)) is not None:
        events.append(event)
    wait_for("newest records in between", lambda: len(slow._waiting) >= credit)
    assert len(slow._waiting) <= credit + 2 * MOST_STEPS
    deadline = time.monotonic() + HANG
    while not any(isinstance(e, StreamControl) and e.kind == RESUMED for e in events) and time.monotonic() < deadline:
        if (event := slow.get(1.0)) is not None:
            events.append(event)
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    events += taken(slow)
    controls = [event for event in events if isinstance(event, StreamControl)]
    assert [control.kind for control in controls[:2]] == [STARVED, RESUMED]
    numbers = [event.step for event in events if isinstance(event, TrainingStep)]
    assert numbers == sorted(set(numbers)), "thinned, and never doubled or out of order"
    assert len(numbers) + slow.missed == stored(daemon, run_id), "what was missed is known to the step"
    assert controls[0].missed == 0 < controls[1].missed
    assert sum(control.missed for control in controls) == slow.missed, "each is counted once"
    assert client.granted <= paid(events), "what cost no credit gives none back: else ever more would wait"


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_watcher_of_a_trimmed_run_gets_what_is_left_and_hears_what_is_gone(
    daemon: DaemonProcess, bus: RunBus, goes_on: bool
) -> None:
    config = toy_config(**LIVELY | ({} if goes_on else {"total_timesteps": 40}))
    config["artifacts"]["steps"] = {"keep_last": 600}
    run_id = daemon.client.submit(config).run.run_id
    if not goes_on:
        daemon.wait_over(run_id)
    wait_for("far more to be removed than there are credits", lambda: daemon.client.step_totals(run_id).trimmed > 4_000)
    watcher = bus.subscribe(run_id, credit=1_000)
    first = watcher.get(HANG)
    assert isinstance(first, StreamControl) and first.kind == GONE and first.missed > 4_000
    events: list[BusEvent] = [first]
    while goes_on and len(events) < 3_000 and (event := watcher.get(HANG)) is not None:
        events.append(event)
    if goes_on:
        daemon.client.cancel(run_id)
        daemon.wait_over(run_id)
    events += taken(watcher)
    numbers = [event.step for event in events if isinstance(event, TrainingStep)]
    assert numbers == sorted(set(numbers)) and numbers[0] == first.missed
    assert len(numbers) + watcher.missed == daemon.client.step_totals(run_id).steps
    assert sum(event.missed for event in events if isinstance(event, StreamControl)) == watcher.missed


def test_a_watcher_that_never_reads_holds_nobody_up_and_little_memory(daemon: DaemonProcess, bus: RunBus) -> None:
    run_id = daemon.submit(**LIVELY)
    asleep = bus.subscribe(run_id, credit=100)
    lively = bus.subscribe(run_id, credit=100_000)
    seen = threading.Event()

    def watch() -> None:
        for event in lively:
            if isinstance(event, TrainingStep) and event.step > 20_000:
                seen.set()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        assert seen.wait(HANG)
        assert lively.missed == 0
        wait_for("the starving of the other", lambda: asleep.missed > 5_000)
        assert len(asleep._waiting) < 2_000
    finally:
        lively.close()
        watching.join()
    daemon.client.cancel(run_id)
    assert daemon.wait_over(run_id).outcome == "canceled"
    assert [step.step for step in daemon.client.steps(run_id, tail=10)][-1] == stored(daemon, run_id) - 1


def test_a_subscription_outlives_a_killed_daemon(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon().start()
    run_id = daemon.submit(**LIVELY)
    with TrainerClient.connect(daemon.paths, start=False) as client, RunBus(client) as bus:
        lively = bus.subscribe(run_id, credit=1_000_000)
        wait_for("some steps", lambda: lively._row > 1_000)
        daemon.kill()
        daemon.start()
        before = lively._row
        wait_for("steps from the next daemon", lambda: lively._row > before)
        daemon.client.cancel(run_id)
        daemon.wait_over(run_id)
        numbers = [event.step for event in taken(lively) if isinstance(event, TrainingStep)]
    assert lively.missed == 0 and numbers == list(range(stored(daemon, run_id)))


def test_a_watch_needs_a_name_of_its_own(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(**LIVELY)
    with pytest.raises(RequestRefusedError, match="watch_id of its own"):
        next(iter(daemon.client.live("steps", run_id, credit=5, watch_id="")))
    assert not daemon.client.grant_credits("nobody", 5)
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
