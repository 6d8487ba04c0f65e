"""Scripts that know nothing of MOSAIC, run unmodified under the harness as real processes."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from mosaic_protocol.outbox import OutboxReader
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest
from mosaic_protocol.states import Desired
from mosaic_worker.harness.run import HarnessOrder
from mosaic_worker.scripts.flags import command_line, read_flags
from mosaic_worker.state import checkpoints
from mosaic_worker.supervision import runtime as runtime_module
from mosaic_worker.supervision.analytics import AnalyticsManifest
from mosaic_worker.supervision.control import CHECKPOINTS_VARIABLE
from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.runtime import ScriptRuntime
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_worker.tests.supervision.ear import Ear, output_in_files

SCRIPTS = Path(__file__).parents[1] / "sample_scripts"


HARNESS_SETTINGS = ("checkpoint_every", "checkpoint_keep", "resume", "warm_start")


def planned(name: str, flags: dict[str, Any] | None = None, checkpoints_wanted: bool = True) -> PlannedScript:
    """A script with these flags, of which some are the harness's."""
    path, values = SCRIPTS / f"{name}.py", dict(flags or {})
    order = HarnessOrder(name, **{one: values.pop(one) for one in HARNESS_SETTINGS if one in values})
    words = tuple(command_line(values, read_flags(path)))
    environment = {} if checkpoints_wanted else {CHECKPOINTS_VARIABLE: "0"}
    return PlannedScript(name, path, words, order, environment=environment)


class Run:
    """One finished run of a script, and what it left."""

    def __init__(self, folder: Path, name: str, ear: Ear | None = None, **settings: Any) -> None:
        self.ear = ear or Ear()
        self.paths = RunPaths(folder)
        self.paths.outbox.mkdir(parents=True)
        plan = planned(name, **settings)
        with output_in_files(folder):
            process = ScriptProcess.start(plan, {"MOSAIC_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"})
            assert process is not None
            manifest = AnalyticsManifest(self.paths, {"algo": name})
            wishes = self.ear.wishes
            self.runtime = ScriptRuntime(process, self.ear, manifest, lambda: wishes.desired, lambda: wishes.may_begin)
            try:
                self.status = self.runtime.run()
            finally:
                process.kill()

    @property
    def rows(self) -> list[dict[str, Any]]:
        reader = OutboxReader(self.paths.outbox, "script")
        try:
            return [json.loads(line) for line in reader.read(100_000)]
        finally:
            reader.close()

    @property
    def steps(self) -> list[int]:
        return [checkpoints.read_manifest(one).step for one in self.kept]

    @property
    def kept(self) -> list[Path]:
        return checkpoints.list_checkpoints(self.paths.checkpoints)

    def tensors(self, position: int = -1) -> dict[str, torch.Tensor]:
        return checkpoints.load(self.kept[position]).tensors

    @property
    def errors(self) -> str:
        return (self.paths.directory / "stderr.log").read_text()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts write below their working directory."""
    monkeypatch.chdir(tmp_path)


def differing(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[str]:
    assert one.keys() == other.keys()
    return [name for name in one if "start_time" not in name and not torch.equal(one[name], other[name])]


# ---- what every script gets --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("cwd"))
        folder = tmp_path_factory.mktemp("runs") / "whole"
        return Run(folder, "argparse_manner", flags={"total_timesteps": 1600, "checkpoint_every": 700})


def test_a_script_of_somebody_else_trains_to_its_end(trained: Run) -> None:
    assert trained.status == 0
    assert trained.ear.planned == [1600]
    assert trained.ear.events == ["run_started", "run_completed"]
    assert trained.ear.last_word == ("run_completed", "completed 1,600 steps", 1600)
    assert "trained for 1600 steps" in (trained.paths.directory / "stdout.log").read_text()


def test_its_scalars_are_in_the_journal_one_row_a_step(trained: Run) -> None:
    losses = [row for row in trained.rows if "losses/policy_loss" in row["values"]]
    assert [row["step"] for row in losses] == list(range(32, 1601, 32))
    own = {"losses/policy_loss", "losses/explained_variance", "charts/SPS"}
    assert set(losses[0]["values"]) == {*own, "system/cpu_seconds", "system/memory_mb"}
    assert any("charts/episodic_return" in row["values"] for row in trained.rows)


def test_its_tensorboard_files_are_in_the_folder_of_the_run(trained: Run) -> None:
    assert list(trained.paths.tensorboard.glob("events.out.tfevents.*"))
    assert read_manifest(trained.paths)["tensorboard_dir"] == "tensorboard"


def test_its_checkpoints_hold_what_is_trained_and_carried_and_no_rollout(trained: Run) -> None:
    assert trained.steps == [704, 1408, 1600]
    found = checkpoints.load(trained.kept[-1])
    names = set(found.tensors)
    assert {"agent.actor.0.weight", "log_scale.value", "variables.next_obs"} <= names
    assert not any(name.startswith(("variables.stored", "variables.rewards")) for name in names)
    assert found.manifest.algo == "argparse_manner"
    assert found.manifest.env_id == "CartPole-v1"
    assert found.manifest.args["learning_rate"] == 2.5e-3
    assert found.manifest.args["batch_size"] == 32
    assert found.manifest.spaces["action"]["n"] == 2
    assert found.manifest.metrics["episodes"] > 10


# ---- going on ----------------------------------------------------------------------------------------------------


def test_a_resumed_script_ends_with_the_same_parameters_to_the_bit(trained: Run, tmp_path: Path) -> None:
    flags = {"total_timesteps": 1600, "resume": str(trained.kept[0])}
    again = Run(tmp_path / "again", "argparse_manner", flags=flags)
    assert again.status == 0, again.errors
    assert "at step 704" in again.errors
    assert differing(trained.tensors(), again.tensors()) == []
    assert again.rows[-1]["step"] == 1600
    assert min(row["step"] for row in again.rows) > 704


def test_a_resumed_script_has_the_flags_of_the_run_it_goes_on_from(trained: Run, tmp_path: Path) -> None:
    again = Run(tmp_path / "again", "argparse_manner", flags={"resume": str(trained.kept[0])})
    assert checkpoints.read_manifest(again.kept[-1]).args["total_timesteps"] == 1600
    assert differing(trained.tensors(), again.tensors()) == []


def test_the_speed_of_a_resumed_script_is_its_own(trained: Run, tmp_path: Path) -> None:
    """The script divides all steps by the time of its process, and writes whole numbers."""
    first = checkpoints.read_manifest(trained.kept[0]).step
    again = Run(tmp_path / "again", "argparse_manner", flags={"total_timesteps": 1600, "resume": str(trained.kept[0])})
    told = [(row["step"], row["values"]["charts/SPS"]) for row in again.rows if "charts/SPS" in row["values"]]
    assert any(speed != int(speed) for _, speed in told), "measured, not the script's"
    seconds = [(step - first) / speed for step, speed in told]
    assert seconds == sorted(seconds), "its own steps by its own time"


def test_every_0_steps_writes_the_last_checkpoint_only(tmp_path: Path) -> None:
    assert Run(tmp_path / "run", "argparse_manner", flags={"total_timesteps": 96, "checkpoint_every": 0}).steps == [96]


def test_a_replay_buffer_is_resumed_too(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"total_timesteps": 1200, "checkpoint_every": 300, "checkpoint_keep": 0}
    whole = Run(tmp_path / "whole", "tyro_manner", flags=flags)
    assert whole.steps[:2] == [300, 600], whole.errors
    for position in (0, 1):  # its buffer not yet full, and full
        flags = {"total_timesteps": 1200, "resume": str(whole.kept[position])}
        again = Run(tmp_path / f"again-{position}", "tyro_manner", flags=flags)
        assert differing(whole.tensors(), again.tensors()) == []


def test_a_warm_start_takes_the_parameters_and_nothing_else(trained: Run, tmp_path: Path) -> None:
    flags = {"warm_start": str(trained.kept[-1]), "checkpoint_every": 1, "learning_rate": 0.0, "total_timesteps": 32}
    warm = Run(tmp_path / "warm", "argparse_manner", flags=flags)
    assert warm.status == 0, warm.errors
    assert "Began with the parameters of" in warm.errors
    weight = "agent.actor.0.weight"
    assert torch.equal(warm.tensors(0)[weight], trained.tensors()[weight])
    assert warm.steps == [32]


def test_parameters_that_do_not_fit_are_listed_one_by_one(trained: Run, tmp_path: Path) -> None:
    flags = {"warm_start": str(trained.kept[-1]), "hidden": 8}
    warm = Run(tmp_path / "warm", "argparse_manner", flags=flags)
    assert warm.ear.events == ["run_failed"]
    assert "agent.actor.0.weight is [16, 4] there and [8, 4] here" in warm.ear.last_word[1]


def test_a_checkpoint_of_another_script_is_refused(trained: Run, tmp_path: Path) -> None:
    warm = Run(tmp_path / "warm", "tyro_manner", flags={"warm_start": str(trained.kept[-1])})
    assert "its algorithm is argparse_manner, this run's is tyro_manner" in warm.ear.last_word[1]


# ---- obeying -----------------------------------------------------------------------------------------------------


def test_it_pauses_resumes_and_stops_with_a_last_checkpoint(tmp_path: Path) -> None:
    ear = Ear({"run_started": Desired.PAUSE, "run_paused": Desired.RUN, "run_resumed": Desired.STOP})
    run = Run(tmp_path / "run", "argparse_manner", ear, flags={"total_timesteps": 10_000_000})
    assert ear.events == ["run_started", "run_paused", "run_resumed", "run_stopping", "run_stopped"], run.errors
    (step,) = run.steps
    assert ear.last_word == (
        "run_stopped",
        f"stopped at step {step:,}; last checkpoint checkpoints/step-{step:012}",
        step,
    )


def test_a_stop_does_not_wait_for_a_turn_that_takes_long(tmp_path: Path) -> None:
    """The turn would take minutes. It is made again from its beginning when the run is resumed."""
    ear, mark = Ear(), tmp_path / "mark"
    thread = threading.Thread(target=stop_when, args=(ear, mark))
    thread.start()
    flags = {"slow": 0.05, "num_steps": 5000, "mark": str(mark), "total_timesteps": 20_000}
    run = Run(tmp_path / "run", "argparse_manner", ear, flags=flags)
    thread.join()
    assert ear.events == ["run_started", "run_stopping", "run_stopped"]
    state = checkpoints.read_manifest(run.kept[0]).state
    assert (state["loop"]["turn"], state["loop"]["whole"]) == (0, False)
    assert state["variables"]["global_step"] == 0


def stop_when(ear: Ear, mark: Path) -> None:
    """The supervisor looks at its wishes once a second."""
    deadline = time.monotonic() + 120
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    ear.wishes.stop()


def test_a_script_without_a_loop_that_trains_is_held_and_ended_all_the_same(tmp_path: Path) -> None:
    ear = Ear({"run_started": Desired.PAUSE, "run_paused": Desired.RUN, "run_resumed": Desired.STOP})
    run = Run(tmp_path / "run", "plain_manner", ear)
    assert ear.events == ["run_started", "run_paused", "run_resumed", "run_stopping", "run_stopped"]
    assert "ended in good order" in (run.paths.directory / "stdout.log").read_text()
    assert run.kept == []


def test_a_script_without_a_loop_is_as_far_as_it_logged(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "logging_manner", flags={"updates": 180})
    assert run.ear.last_word == ("run_completed", "completed 180,000 steps", 180_000), run.errors


def test_a_script_that_is_deaf_to_signals_ends_at_a_stop(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "plain_manner", Ear({"run_started": Desired.STOP}), flags={"deaf": True})
    assert run.ear.events[-1] == "run_stopped"


def test_a_script_that_hangs_in_foreign_code_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "_STOP_SECONDS", 0.0)
    ear = Ear({"run_started": Desired.STOP})
    run = Run(tmp_path / "run", "hanging_manner", ear)
    assert ear.last_word[0] == "run_failed"
    assert "killed by signal 9 (SIGKILL)" in ear.last_word[1]
    assert run.kept == []


def test_a_loop_in_a_function_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "function_manner")
    assert run.ear.events == ["run_started", "run_completed"]
    assert {"model.weight", "model.bias"} <= set(run.tensors())


# ---- going wrong -------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    flags = {"poison_at": 10, "checkpoint_every": 64}
    run = Run(tmp_path / "run", "argparse_manner", flags=flags)
    event, sentence, _ = run.ear.last_word
    assert event == "run_failed"
    assert "losses/policy_loss became nan at step 320" in sentence
    assert sentence.endswith(f"last checkpoint checkpoints/{run.kept[-1].name}")
    assert run.steps[-1] < 320
    assert all(torch.isfinite(value).all() for value in run.tensors().values() if value.is_floating_point())


def test_a_script_that_crashes_at_import_fails_with_its_last_line(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "plain_manner", flags={"fail": True})
    assert run.ear.last_word[0] == "run_failed"
    assert "ImportError: no module named gymnastics" in run.ear.last_word[1]
    assert 'plain_manner.py", line 14' in run.errors


def test_no_checkpoints_are_written_where_none_are_wanted(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", "function_manner", checkpoints_wanted=False)
    assert run.ear.last_word[0] == "run_completed"
    assert run.kept == []
