"""The nemesis campaign: a short one breaks no promise, and its checker would say so if it did."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.runs.lifecycle import Transition
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.run_records import run_record
from mosaic_protocol.events import MetricRow
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome, RunState
from tools.nemesis.checker import check
from tools.nemesis.faults import KINDS, Nemesis, Planned, schedule
from tools.nemesis.history import SETTLING, History
from tools.nemesis.ledger import Ledger, Submission
from tools.nemesis.plans import Plan, plan
from tools.nemesis.scalars import ScalarCheck

PROJECT = Path(__file__).resolve().parents[3]
SEED = 20261
STEPS = 30


def nemesis(*words: str) -> dict[str, Any]:
    """The figures of a campaign; its own words when it found something."""
    command = [sys.executable, "-m", "tools.nemesis", *words, "--json"]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return dict(json.loads(ended.stdout))


def test_a_short_campaign_breaks_no_promise(tmp_path: Path) -> None:
    words = ("--minutes", "0.25", "--gap", "1.5", "--pause", "0.4", "--seed", str(SEED))
    told = nemesis(*words, "--where", str(tmp_path), "--keep", str(tmp_path / "kept"), "--without", "chmod")
    assert told["violations"] == []
    assert sum(told["runs"].values()) > 0 and "not over" not in told["outcomes"]
    assert sum(told["faults"].values()) > 0
    assert told["scalars_compared"] > 0
    assert f"--seed {SEED}" in told["repeat"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
def test_campaigns_of_other_seeds_on_a_small_disk_break_no_promise_either(tmp_path: Path, seed: int) -> None:
    told = nemesis("--minutes", "1", "--gap", "2", "--seed", str(seed), "--where", "tmpfs", "--keep", str(tmp_path))
    assert told["violations"] == []


def test_the_same_seed_plans_the_same_faults_and_runs() -> None:
    planned = schedule(7, 600, 2.0, KINDS)
    assert planned == schedule(7, 600, 2.0, KINDS) != schedule(8, 600, 2.0, KINDS)
    assert {one.kind for one in planned} == set(KINDS)
    assert _plans(7) == _plans(7) != _plans(8)


@pytest.mark.parametrize("dice", range(4))
def test_a_folder_is_open_again_after_faults_that_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dice: int
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(0o700)
    before = folder.stat().st_mode
    with closing(History(tmp_path / "history.jsonl")) as history:
        campaign = Nemesis(MosaicPaths(tmp_path), history, [], None)
        monkeypatch.setattr(campaign, "_folders", lambda: [folder])
        one = Planned(0.0, "chmod", 1.0, 0.5)
        undone = [campaign.chmod(one, random.Random(dice + number)) for number in range(3)]
    assert folder.stat().st_mode != before
    for undo in filter(None, undone):
        undo()
    assert folder.stat().st_mode == before


def _plans(seed: int) -> list[Plan]:
    rng = random.Random(seed)
    return [plan(number, rng, {"short": 1, "script": 1}) for number in range(20)]


# ---- would the checker say so? ------------------------------------------------------------------------------------


class Story:
    """A campaign of one run that completed, as its clients and the registry remember it."""

    def __init__(self, folder: Path) -> None:
        self.paths = MosaicPaths(folder / "home")
        self.history = History(folder / "history.jsonl")
        self.ledger = Ledger(self.paths, self.history, SEED)
        self.registry = RunRegistry(folder / "registry.sqlite")
        self.one = Submission(_plan("nemesis-1"), "client-1", "request-1")
        self.ledger.submissions.append(self.one)
        self.run = self.store(self.one.plan.name)
        self.ledger.acknowledge(self.one, self.run.run_id)

    def store(self, name: str) -> RunRecord:
        """A run that completed, all its moves legal."""
        run = self.registry.insert(run_record(name=name), "").result()[0]
        for state in (RunState.HSHK, RunState.RDY, RunState.EXEC):
            run = self.move(run, state)
        return self.move(run, RunState.TERM, outcome=Outcome.COMPLETED, reason="finished at step 30", last_step=STEPS)

    def move(self, run: RunRecord, state: RunState, **changes: Any) -> RunRecord:
        moved = replace(run, state=state, **changes)
        return self.registry.save(moved, [Transition(run.state, state, "Test")]).result()

    def end(self, outcome: Outcome, reason: str) -> None:
        """Another ending than the one it had, without an entry in the log."""
        self.run = self.registry.save(replace(self.run, outcome=outcome, reason=reason), ()).result()

    def act(self, action: str, client: str = "client-1", **detail: Any) -> None:
        with self.history.operation(client, action, self.run.run_id, **detail):
            pass

    def cancel_twice(self) -> None:
        self.act("cancel", reason="enough")
        self.act("cancel", client=SETTLING, reason="settling")
        self.end(Outcome.CANCELED, "canceled: settling; stopped at step 7")

    def broken(self) -> list[str]:
        return check(self.registry, self.ledger, cpus=8)


def _plan(name: str, ends: str = "completed") -> Plan:
    return Plan(name, "short", {}, STEPS, 1000.0, ends)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    with closing(story.registry), closing(story.history):
        yield story


def test_a_campaign_in_order_breaks_no_rule(story: Story) -> None:
    assert story.broken() == []


LIES: dict[str, tuple[Callable[[Story], object], str]] = {
    "lost": (lambda story: story.registry.remove(story.run.run_id).result(), "is lost"),
    "doubled": (lambda story: story.store(story.one.plan.name), "exists 2 times"),
    "unasked": (lambda story: story.store("stranger"), "nobody submitted stranger"),
    "purged and there": (lambda story: setattr(story.one, "purged", True), "is still there"),
    "deleted unasked": (lambda story: setattr(story.one, "in_trash", True), "belongs in the trash"),
    "cancelled unasked": (lambda story: story.end(Outcome.CANCELED, "canceled"), "done to it: nothing"),
    "failed unasked": (
        lambda story: story.end(Outcome.FAILED, "the worker was killed by signal 9 (SIGKILL)"),
        "was to be completed",
    ),
    "lost unasked": (lambda story: story.end(Outcome.LOST, "the worker left no last word"), "was to be completed"),
    "another number of steps": (lambda story: story.end(Outcome.COMPLETED, "finished at step 29"), "step 29"),
    "no sentence": (lambda story: story.end(Outcome.COMPLETED, ""), "without a sentence"),
    "back from the end": (lambda story: story.move(story.run, RunState.EXEC), "is not legal"),
    "a cancel forgotten": (Story.cancel_twice, "was answered and then forgotten"),
    "seen broken": (lambda story: story.history.broken("two daemons"), "two daemons"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_broken_promise_is_found(story: Story, name: str) -> None:
    lie, told = LIES[name]
    lie(story)
    assert any(told in sentence for sentence in story.broken()), story.broken()


def test_an_ending_that_was_asked_for_is_in_order(story: Story) -> None:
    story.act("cancel", reason="enough")
    story.end(Outcome.CANCELED, "canceled: enough; stopped at step 7")
    assert story.broken() == []
    story.end(Outcome.CANCELED, "canceled: too slow; stopped at step 7")
    assert len(story.broken()) == 1

    story.history.blow("kill-worker", "pid 1", story.run.run_id)
    story.end(Outcome.FAILED, "the worker was killed by signal 9 (SIGKILL)")
    assert story.broken() == []


def test_a_pause_that_nobody_asked_for_is_found(story: Story) -> None:
    run = story.registry.insert(run_record(name="nemesis-2"), "").result()[0]
    for state in (RunState.HSHK, RunState.RDY, RunState.EXEC, RunState.PAUSE, RunState.EXEC):
        run = story.move(run, state)
    assert f"{run.run_id} was paused and nobody asked for it" in story.broken()


class StoredRecords:
    """Stands in for the daemon's answers about one run."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def run(self, run_id: str) -> pb.Run:
        return pb.Run(run_id=run_id, outcome="completed")

    def stream(self, kind: str, run_id: str) -> Iterator[pb.RecordPage]:
        yield pb.RecordPage(records=self._lines)

    def metrics(self, run_id: str, *, max_points: int) -> list[pb.MetricSeries]:
        rows = [json.loads(line) for line in self._lines]
        values = [row["values"]["charts/episodic_return"] for row in rows]
        return [pb.MetricSeries(tag="charts/episodic_return", steps=[row["step"] for row in rows], values=values)]


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (lambda lines: lines, ""),
        (lambda lines: lines[:10] + lines[11:], "missing [(11, 11)]"),
        (lambda lines: [*lines, lines[4]], "doubled [(5, 5)"),
        (lambda lines: lines[:-1], "missing [(30, 30)]"),
        (lambda lines: [line.replace(b"1007.0", b"1008.0") for line in lines], "missing [(7, 7)]"),
    ],
    ids=["as journalled", "one missing", "one doubled", "last missing", "another value"],
)
def test_scalars_are_compared_one_by_one(story: Story, kept: Callable[[list[bytes]], list[bytes]], told: str) -> None:
    folder = story.paths.run(story.run.run_id).outbox
    folder.parent.mkdir(parents=True, exist_ok=True)
    journal = OutboxWriter(folder, "worker")
    for step in range(1, STEPS + 1):
        journal.append(MetricRow(step=step, values={"charts/episodic_return": 1000.0 + step}))
    journal.close()
    with closing(OutboxReader(folder, "worker")) as reader:
        lines = reader.read()
    scalars = ScalarCheck(story.paths, story.history)
    scalars.compare(StoredRecords(kept(lines)), story.run.run_id, story.one.plan)  # type: ignore[arg-type]
    assert scalars.compared == STEPS
    assert bool(story.history.seen_broken) == bool(told)
    assert any(told in sentence for sentence in story.history.seen_broken) or not told


def test_a_process_of_a_run_that_is_over_is_found(story: Story) -> None:
    environment = {**os.environ, "MOSAIC_RUN_ID": story.run.run_id}
    with subprocess.Popen(["sleep", "60"], env=environment) as left:
        story.ledger.observe(pb.Run(run_id=story.run.run_id, state="TERM", outcome="completed", attempt=1), 0.0)
        left.kill()
    assert any(f"processes [{left.pid}] of it live" in sentence for sentence in story.history.seen_broken)
