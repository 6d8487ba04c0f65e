"""Scripts in the shape of CORL's, unmodified, as real processes under the harness: their rows, their checkpoints, a
resumed run that is the same to the bit, a stop within a long epoch."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from corl_worker.config import WorkerConfig
from corl_worker.tests.test_upstream_plan import CHECKOUT
from corl_worker.upstream_plan import CorlPlan
from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.paths import RunPaths
from mosaic_worker.script_worker.facts import facts_of
from mosaic_worker.state import checkpoints
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.runtime import ScriptRuntime
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_worker.tests.script_tools import differing
from mosaic_worker.tests.supervision.ear import Ear, output_in_files


class Run:
    """One finished run of a script of the checkout, and what it left."""

    def __init__(self, folder: Path, algo: str, ear: Ear | None = None, **settings: Any) -> None:
        told = {"algo": algo, "source": "corl", "corl_path": str(CHECKOUT), "dataset": "swings", "seed": 3}
        config = WorkerConfig.of({**told, **settings})
        self.plan = CorlPlan.of(config)
        self.ear, self.paths = ear or Ear(), RunPaths(folder)
        self.paths.outbox.mkdir(parents=True)
        with output_in_files(folder):
            process = ScriptProcess.start(self.plan, {"MOSAIC_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"})
            assert process is not None
            manifest = AnalyticsManifest(self.paths, facts_of(config, self.plan))
            wishes = self.ear.wishes
            runtime = ScriptRuntime(process, self.ear, manifest, lambda: wishes.desired, lambda: wishes.may_begin)
            try:
                self.status = runtime.run()
            finally:
                process.kill()

    @property
    def rows(self) -> list[dict[str, Any]]:
        reader = OutboxReader(self.paths.outbox, "script")
        try:
            return [json.loads(line) for line in reader.read(100_000)]
        finally:
            reader.close()

    def curve(self, tag: str) -> list[tuple[int, float]]:
        return [(row["step"], row["values"][tag]) for row in self.rows if tag in row["values"]]

    @property
    def last(self) -> checkpoints.Checkpoint:
        return checkpoints.load(checkpoints.list_checkpoints(self.paths.checkpoints)[-1])

    @property
    def errors(self) -> str:
        return (self.paths.directory / "stderr.log").read_text()


PARAMS = {"eval_freq": 20, "n_episodes": 2}


@pytest.fixture(scope="module")
def trained(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("trained")
        patch.chdir(folder)
        patch.setenv("MOSAIC_HOME", str(data_root))
        patch.setenv("MOSAIC_SCRIPT_PYTHON", sys.executable)
        artifacts = {"checkpoints": {"every_steps": 25}}
        return Run(folder / "run", "tiny", total_timesteps=60, params=PARAMS, artifacts=artifacts)


@pytest.fixture(autouse=True)
def _around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOSAIC_SCRIPT_PYTHON", sys.executable)


def test_it_trains_to_its_end_and_is_told_of(trained: Run) -> None:
    assert trained.status == 0, trained.errors
    assert trained.ear.events == ["run_started", "run_completed"]
    assert trained.ear.planned == [60]
    assert trained.ear.last_word[1] == "completed 60 steps"
    told = json.loads((trained.paths.directory / "analytics.json").read_text())
    assert (told["dataset"], told["algo"], told["resolved"]["max_timesteps"]) == ("swings", "tiny", 60)


def test_every_row_it_logs_is_in_the_journal_with_its_own_step(trained: Run) -> None:
    assert [step for step, _ in trained.curve("bc_loss")] == list(range(1, 61))
    assert [step for step, _ in trained.curve("d4rl_normalized_score")] == [20, 40, 60]
    assert all("note" not in row["values"] for row in trained.rows)
    assert trained.curve("charts/SPS")


def test_returns_of_what_it_played_stand_beside_its_scores(trained: Run) -> None:
    returns, scores = trained.curve("charts/episodic_return"), trained.curve("d4rl_normalized_score")
    assert [step for step, _ in returns] == [step for step, _ in scores]
    expected = [-1200.0 + score / 100.0 * 1050.0 for _, score in scores]
    assert [value for _, value in returns] == pytest.approx(expected, rel=1e-5)
    assert [value for _, value in trained.curve("charts/episodes")] == [2.0, 4.0, 6.0]


def test_tensorboard_files_are_written_although_the_script_writes_none(trained: Run) -> None:
    assert list(trained.paths.tensorboard.glob("events.out.tfevents.*"))


def test_its_checkpoints_hold_the_trainer_and_not_the_data(trained: Run) -> None:
    kept = checkpoints.list_checkpoints(trained.paths.checkpoints)
    assert [checkpoints.read_manifest(one).step for one in kept] == [25, 50, 60]
    manifest, tensors = trained.last.manifest, trained.last.tensors
    assert {"actor.weight", "trainer.target.weight"} <= set(tensors)
    assert not [name for name in tensors if "_states" in name or "buffer" in name]
    assert manifest.state["objects"]["trainer"]["plain"] == {"total_it": 60}
    assert (manifest.algo, manifest.env_id) == ("corl/tiny", "Pendulum-v1")
    assert manifest.offline_dataset["name"] == "swings"


def test_a_resumed_run_ends_with_the_same_to_the_bit(trained: Run, tmp_path: Path) -> None:
    first = checkpoints.list_checkpoints(trained.paths.checkpoints)[0]
    start = {"mode": "resume", "checkpoint": str(first)}
    run = Run(tmp_path / "run", "tiny", total_timesteps=60, params=PARAMS, start=start)
    assert run.status == 0, run.errors
    assert "Resumed" in run.errors
    assert differing(trained.last.tensors, run.last.tensors) == []
    tail = [(step, loss) for step, loss in trained.curve("bc_loss") if step > 25]
    assert run.curve("bc_loss") == tail
    assert len(run.last.manifest.state["variables"]["scores"]) == 3


def test_a_loss_that_is_no_number_stops_it(tmp_path: Path) -> None:
    artifacts = {"checkpoints": {"every_steps": 5}}
    run = Run(tmp_path / "run", "tiny", total_timesteps=60, params={"poison_at": 12}, artifacts=artifacts)
    assert "bc_loss became nan at step 12" in run.ear.last_word[1]
    assert run.last.manifest.step == 10


def stop_after_a_row(ear: Ear, outbox: Path) -> None:
    """As a daemon would, once the script has logged something."""
    deadline = time.monotonic() + 120
    while not any(file.stat().st_size for file in outbox.glob("script-*.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    ear.wishes.stop()


def test_a_stop_within_a_long_epoch_keeps_what_was_learned(tmp_path: Path) -> None:
    ear, folder = Ear(), tmp_path / "run"
    threading.Thread(target=stop_after_a_row, args=(ear, folder / "outbox"), daemon=True).start()
    params = {"num_updates_on_epoch": 1_000_000, "nap": 0.002}
    run = Run(folder, "epochs", ear, total_timesteps=1_000_000, params=params)
    assert run.ear.last_word[0] == "run_stopped", run.errors
    steps = [row["step"] for row in run.rows]
    assert steps == list(range(0, 5 * len(steps), 5))
    assert run.last.manifest.step == steps[-1]
    assert not run.last.manifest.state["loop"]["whole"]
