"""A program of several seeds becomes runs when it is over: whole ones, each once, whatever cuts that short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.errors import RefusedError, UnknownRunError
from gym_gui.services.trainer.runs import orchestrator, seed_runs
from gym_gui.services.trainer.runs.clearing import RunClearing
from gym_gui.services.trainer.runs.run_record import LastWord, RunRecord, Verdict
from gym_gui.services.trainer.runs.seed_runs import SeedRuns, id_of_seed, name_of_seed
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.run_records import live_record
from mosaic_host.agent import open_chunk_line, outbox_part
from mosaic_host.executor import OutboxPart
from mosaic_protocol import events as ev
from mosaic_protocol.outbox import OutboxPlace, OutboxWriter, streams
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import parse_run_config
from mosaic_protocol.seed_runs import folder_of, seeds_of, settings_of_seed
from mosaic_protocol.states import Desired, Outcome, RunState
from mosaic_protocol.worker_manifest import load_manifest

SETTINGS: dict[str, Any] = {"algo": "ppo_jax", "env_id": "CartPole-v1", "seed": 3, "params": {"seeds": 3, "gamma": 0.9}}


class Place:
    """A data root with its stores, and what brings seeds into it."""

    def __init__(self, root: Path, registry: RunRegistry, hub: TelemetryHub) -> None:
        self.paths, self.registry, self.hub = MosaicPaths(root), registry, hub
        self.runs = SeedRuns(self.paths, registry, hub, RunClearing(hub, self))  # type: ignore[arg-type]

    async def streams(self, run_id: str) -> list[str]:
        return streams(self.paths.run(run_id).directory / "outbox")

    async def read_outbox(self, run_id: str, stream: str, after_seq: int, place: OutboxPlace | None) -> OutboxPart:
        return outbox_part(self.paths.run(run_id).directory / "outbox", stream, after_seq, place)

    async def read_open_chunk(self, run_id: str, stream: str) -> bytes | None:
        return open_chunk_line(self.paths.run(run_id).directory / "outbox", stream)

    async def write_ending(self, *_: str) -> None:
        """No manifest is looked at here."""

    def program(self, **facts: Any) -> RunRecord:
        """A program whose process is gone, with a journal of each seed that began: they say how it ended."""
        words = facts.pop("words", {3: ev.RUN_COMPLETED, 4: ev.RUN_FAILED, 5: ev.RUN_COMPLETED})
        worker = {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": facts.pop("settings", SETTINGS)}
        config = {"run_name": "many", "resources": {}, "artifacts": {}, "metadata": {"worker": worker}}
        known = {"state": RunState.EXEC, "name": "many", "worker_type": "cleanrl", "config_json": json.dumps(config)}
        whole = live_record(**{**known, "algo": "ppo_jax", "env_id": "CartPole-v1", "started_at": 100.0, **facts})
        for seed, word in words.items():
            folder = folder_of(self.paths.run(whole.run_id).directory, seed)
            (folder / "checkpoints").mkdir(parents=True)
            with closing(OutboxWriter(folder / "outbox", "script")) as journal:
                journal.append(ev.RunLifecycleEvent(event=ev.RUN_STARTED))
                for step in (512, 1024):
                    journal.append(ev.MetricRow(step=step, values={"charts/episodic_return": float(seed * step)}))
                if word:
                    journal.append(ev.RunLifecycleEvent(event=word, sentence=f"{seed} said so", step=1024))
        return whole

    def seeds(self, whole: RunRecord) -> dict[int, RunRecord]:
        found = {}
        for seed in range(3, 6):
            try:
                found[seed] = self.registry.get(id_of_seed(whole.run_id, seed))
            except UnknownRunError:
                continue
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    paths = MosaicPaths(tmp_path)
    paths.runs.mkdir(parents=True)
    paths.configs.mkdir(parents=True)
    with (
        closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as store,
        closing(StepStore(tmp_path / "steps.sqlite")) as steps,
        closing(TelemetryHub(store, steps)) as hub,
        closing(RunRegistry(tmp_path / "registry.sqlite")) as registry,
    ):
        yield Place(tmp_path, registry, hub)
        check_history(registry, cpus=2)


async def test_each_seed_becomes_a_run_with_its_own_end_curve_and_settings(place: Place) -> None:
    whole = place.program()
    brought = await place.runs.bring(whole)
    seeds = place.seeds(whole)
    assert [run.run_id for run in brought] == [run.run_id for run in seeds.values()]
    assert {seed: (run.outcome, run.reason) for seed, run in seeds.items()} == {
        3: (Outcome.COMPLETED, "3 said so"),
        4: (Outcome.FAILED, "4 said so"),
        5: (Outcome.COMPLETED, "5 said so"),
    }
    for seed, run in seeds.items():
        assert (run.name, run.labels.seed, run.labels.group) == (f"many-seed-{seed}", seed, "many")
        settings = json.loads(run.config_json)["metadata"]["worker"]["config"]
        assert settings == {**SETTINGS, "seed": seed, "params": {"gamma": 0.9}}
        assert (run.last_step, run.started_at, run.reservation) == (1024, 100.0, None)
        assert place.hub.headline(run.run_id)["charts/episodic_return"] == seed * 1024
        assert (place.paths.run(run.run_id).directory / "checkpoints").is_dir()
        assert json.loads(place.paths.run_config(run.run_id).read_text())["run_name"] == run.name
        causes = [row.transition.cause for row in place.registry.history(run.run_id)]
        assert causes[:4] == ["Seed", "Launching", "Registered", "run_started"] and causes[-1] == "Gone"


@pytest.mark.parametrize("cut", ["write_whole", "take_over_outbox", "stored_lifecycle", "adopt", "close_manifest"])
@pytest.mark.parametrize("at", [1, 2])
async def test_what_was_cut_short_is_ended_by_the_next_daemon_and_nothing_comes_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, cut: str, at: int
) -> None:
    whole, calls = place.program(), iter(range(1, 100))
    owner: Any = {
        "write_whole": seed_runs,
        "take_over_outbox": place.runs._clearing,
        "close_manifest": place.runs._clearing,
        "stored_lifecycle": place.hub,
        "adopt": place.registry,
    }[cut]
    original = getattr(owner, cut)

    def dying(*args: Any, **more: Any) -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return original(*args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, cut, dying)
        with pytest.raises(KeyboardInterrupt):
            await place.runs.bring(whole)
    assert len(place.seeds(whole)) < 3
    await place.runs.bring(whole)
    before = place.registry.history()
    assert len(place.seeds(whole)) == 3 and not (await place.runs.bring(whole))
    assert place.registry.history() == before
    for run in place.seeds(whole).values():
        assert [row for row, _ in place.hub.records(run.run_id, "metric", 0)] == [1, 2]


@pytest.mark.parametrize(
    ("facts", "outcome", "sentence"),
    [
        ({"exit_status": -9}, Outcome.FAILED, "the worker was killed by signal 9 (SIGKILL)"),
        (
            {"verdict": Verdict(Outcome.CANCELED, "canceled: enough"), "desired": Desired.STOP, "exit_status": 0},
            Outcome.CANCELED,
            "canceled: enough",
        ),
        (
            {"verdict": Verdict(Outcome.FAILED, "no space"), "last_word": LastWord(ev.RUN_FAILED, "no space")},
            Outcome.FAILED,
            "no space",
        ),
    ],
)
async def test_a_seed_without_a_last_word_ended_as_its_program_did_and_one_that_never_began_is_none(
    place: Place, facts: dict[str, Any], outcome: Outcome, sentence: str
) -> None:
    whole = place.program(words={3: "", 4: ev.RUN_FAILED}, **facts)
    await place.runs.bring(whole)
    seeds = place.seeds(whole)
    assert seeds.keys() == {3, 4}
    assert (seeds[3].outcome, seeds[3].reason) == (outcome, sentence)
    assert (seeds[4].outcome, seeds[4].reason) == (Outcome.FAILED, "4 said so")


async def test_seeds_that_stopped_because_their_program_died_ended_as_it_did(place: Place) -> None:
    """A script that loses its supervisor still writes its last checkpoints."""
    whole = place.program(words={3: ev.RUN_STOPPED, 5: ev.RUN_COMPLETED}, exit_status=-9)
    await place.runs.bring(whole, "out of memory")
    seeds = place.seeds(whole)
    reason = "the worker was killed by signal 9 (SIGKILL): out of memory; 3 said so"
    assert (seeds[3].outcome, seeds[3].reason) == (Outcome.FAILED, reason)
    assert (seeds[5].outcome, seeds[5].reason) == (Outcome.COMPLETED, "5 said so")


async def test_seeds_whose_folder_was_away_when_their_program_was_closed_come_later(place: Place) -> None:
    closed = {"state": RunState.TERM, "outcome": Outcome.LOST, "reason": "nobody saw how it ended"}
    whole = place.program(words={3: "", 5: ev.RUN_COMPLETED}, **closed)
    await place.runs.bring(whole)
    found = {seed: (run.outcome, run.reason) for seed, run in place.seeds(whole).items()}
    assert found == {3: (Outcome.LOST, "nobody saw how it ended"), 5: (Outcome.COMPLETED, "5 said so")}


async def test_what_is_no_folder_of_a_seed_or_stands_in_its_way_is_left_alone(place: Place, tmp_path: Path) -> None:
    whole = place.program(words={3: ev.RUN_COMPLETED})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder_of(place.paths.run(whole.run_id).directory, 4).symlink_to(elsewhere)
    taken = place.paths.run(id_of_seed(whole.run_id, 3)).directory
    (taken / "mine").mkdir(parents=True)
    assert await place.runs.bring(whole) == [] and place.seeds(whole) == {}
    assert (taken / "mine").is_dir() and elsewhere.is_dir()


async def test_an_ordinary_run_and_a_script_of_ones_own_have_no_seeds(place: Place) -> None:
    for settings in (
        {**SETTINGS, "params": {}},
        {**SETTINGS, "script": "/my.py"},
        {**SETTINGS, "params": {"seeds": True}},
    ):
        whole = place.program(settings=settings)
        assert await place.runs.bring(whole) == []
        assert folder_of(place.paths.run(whole.run_id).directory, 3).is_dir()


def test_seeds_are_told_by_flags_wherever_they_stand() -> None:
    late = {"seed": 7, "extras": {"algo_params": {"seeds": 2, "x": 1}, "video": {}}}
    assert seeds_of(late) == range(7, 9)
    assert settings_of_seed(late, 8) == {"seed": 8, "extras": {"algo_params": {"x": 1}, "video": {}}}
    assert late["extras"]["algo_params"] == {"seeds": 2, "x": 1}  # type: ignore[index]
    assert seeds_of({"seed": 1, "params": {"seeds": 2, "seed": 40}}) == range(40, 42)
    assert settings_of_seed({"params": {"seeds": 2, "seed": 40}}, 41) == {"seed": 41, "params": {}}
    assert seeds_of({"params": {"seeds": 10**9}}) == range(0)
    assert len(name_of_seed("n" * 120, 5)) <= 120


def test_several_seeds_stay_on_this_machine() -> None:
    worker = {"type": "cleanrl", "module": "cleanrl_worker.cli", "config": SETTINGS}
    resources = {"host": "elsewhere"}
    config = parse_run_config(
        {"run_name": "many", "resources": resources, "artifacts": {}, "metadata": {"worker": worker}}
    )
    manifest = load_manifest(Path(__file__).parents[4] / "cleanrl_worker")
    with pytest.raises(RefusedError, match="a run of several seeds cannot go to another host yet"):
        orchestrator._require_here_or_able(config, manifest, interactive=False, script=None)


def test_the_id_of_a_seed_follows_from_its_program_and_no_other_has_it() -> None:
    one, other = "01K9ZQ3V7X0000000000000001", "01K9ZQ3V7X0000000000000002"
    ids = {id_of_seed(run, seed) for run in (one, other) for seed in range(100)}
    assert len(ids) == 200 and id_of_seed(one, 5) in ids
    assert all(found.startswith("01K9ZQ3V7X") for found in ids)
