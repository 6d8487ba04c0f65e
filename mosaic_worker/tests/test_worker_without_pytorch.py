"""A worker whose environment has no PyTorch trains, is stopped, goes on, is warm-started, evaluated and asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mosaic_protocol.policy_client import PolicyClient
from mosaic_protocol.worker_packages import PACKAGE_VARIABLE
from mosaic_worker.state import checkpoints

TABLE_WORKER = Path(__file__).resolve().parent / "table_worker"
CHECKOUT = TABLE_WORKER.parents[2]
MORE_STEPS = 300
HANG_SECONDS = 120


class Place:
    """A folder in which programs run that find modules missing although they are installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, *also_missing: str) -> dict[str, str]:
        shadow = self.folder / "-".join(["away", *also_missing])
        shadow.mkdir(exist_ok=True)
        for name in ("torch", *also_missing):
            refusal = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
            (shadow / f"{name}.py").write_text(refusal)
        path = os.pathsep.join(map(str, (shadow, TABLE_WORKER.parent, CHECKOUT)))
        return {**os.environ, "PYTHONPATH": path, PACKAGE_VARIABLE: str(TABLE_WORKER), "MOSAIC_TENSORBOARD": "0"}

    def start(self, *words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [sys.executable, *words], cwd=self.folder, env=environment or self.environment(), **pipes
        )

    def run(self, *words: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
        with self.start(*words, environment=environment) as process:
            try:
                out, err = process.communicate(timeout=HANG_SECONDS)
            finally:
                process.kill()
        return process.returncode, out, err

    def python(self, program: str) -> str:
        status, out, err = self.run("-c", program)
        assert status == 0, err
        return out

    def words(self, steps: int, **config: Any) -> list[str]:
        file = self.folder / f"config-{len(list(self.folder.iterdir()))}.json"
        file.write_text(json.dumps({"env_id": "FrozenLake-v1", "seed": 3, "total_timesteps": steps, **config}))
        return ["-m", "table_worker.cli", "--config", str(file)]

    def last_of(self, before: set[Path]) -> Path:
        """The last checkpoint of the one run that is new."""
        (folder,) = self.runs() - before
        return checkpoints.list_checkpoints(folder / "checkpoints")[-1]

    def runs(self) -> set[Path]:
        return set((self.folder / "runs").glob("*"))

    def train(self, steps: int, **config: Any) -> Path:
        before = self.runs()
        status, _, err = self.run(*self.words(steps, **config))
        assert status == 0, err
        return self.last_of(before)

    def train_until_stopped(self) -> Path:
        before = self.runs()
        with self.start(*self.words(10**9)) as process:
            try:
                assert process.stdout is not None
                assert any(line == "learning\n" for line in process.stdout), process.communicate()[1]
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=HANG_SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, err
        return self.last_of(before)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("without-pytorch"))


@pytest.fixture(scope="module")
def stopped(place: Place) -> Path:
    return place.train_until_stopped()


@pytest.fixture(scope="module")
def resumed(place: Place, stopped: Path) -> Path:
    steps = checkpoints.read_manifest(stopped).step + MORE_STEPS
    return place.train(steps, start={"mode": "resume", "checkpoint": str(stopped)})


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    found = checkpoints.load(path)
    return {name: found.array(name) for name in found.tensors}


def test_a_run_that_was_stopped_and_resumed_ends_as_one_that_was_not(place: Place, resumed: Path) -> None:
    last = checkpoints.read_manifest(resumed)
    assert last.lineage["kind"] == "resume"
    unstopped = place.train(last.step)
    np.testing.assert_equal(arrays_of(resumed), arrays_of(unstopped))
    assert checkpoints.read_manifest(unstopped).state == last.state
    assert (arrays_of(resumed)["q"] != 1).any(), "something was learned, so the comparison says something"
    assert "random.torch" not in arrays_of(resumed)


def test_a_process_with_pytorch_reads_what_one_without_it_wrote(resumed: Path, tmp_path: Path) -> None:
    found = checkpoints.load(resumed)
    assert all(isinstance(tensor, torch.Tensor) for tensor in found.tensors.values())
    again = checkpoints.save(tmp_path, algo="a", env_id="e", step=1, tensors=found.tensors)
    assert checkpoints.read_manifest(again).tensor_sha256 == found.manifest.tensor_sha256, "the file is the same"


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        (torch.float16, "float16 float16 1.5\n"),
        (torch.bool, "bool bool True\n"),
        (
            torch.bfloat16,
            "(BF16): reading it takes PyTorch, which is not installed here.\n",
        ),
    ],
)
def test_a_process_without_pytorch_reads_what_one_with_it_wrote_or_says_why_not(
    place: Place, tmp_path: Path, dtype: torch.dtype, told: str
) -> None:
    tensors = {"q": torch.tensor([1.5, 2.0]).to(dtype), "scalar": torch.tensor(7)}
    path = checkpoints.save(tmp_path, algo="a", env_id="e", step=1, tensors=tensors)
    program = f"""
from pathlib import Path
from mosaic_worker.state import checkpoints
try:
    found = checkpoints.load(Path({str(path)!r}))
    print(found.tensors["q"].dtype, found.array("q").dtype, found.array("q")[0])
except checkpoints.CheckpointError as error:
    print(error)
"""
    assert place.python(program).endswith(told)


def test_a_warm_start_takes_the_table_and_nothing_else(place: Place, stopped: Path) -> None:
    warm = place.train(50, params={"learning_rate": 0.0}, start={"mode": "warm_start", "checkpoint": str(stopped)})
    manifest, arrays = checkpoints.read_manifest(warm), arrays_of(warm)
    assert (manifest.step, manifest.lineage["kind"]) == (50, "warm_start")
    assert np.array_equal(arrays["q"], arrays_of(stopped)["q"])
    assert arrays["learning.visits"].sum() == 50


def test_a_table_of_another_map_is_refused_with_both_sizes(place: Place, stopped: Path) -> None:
    warm = {"mode": "warm_start", "checkpoint": str(stopped)}
    status, _, err = place.run(*place.words(50, params={"map_name": "8x8"}, start=warm))
    assert status == 2
    assert err.endswith("cannot be used: the checkpoint does not fit: q is [16, 4] there and [64, 4] here\n")


def test_a_table_is_evaluated_and_answers_questions(place: Place, stopped: Path) -> None:
    words = ("-m", "mosaic_worker.policies.evaluate", "--checkpoint", str(stopped), "--episodes", "4", "--jobs", "2")
    status, out, err = place.run(*words)
    assert status == 0, err
    result = json.loads(out.splitlines()[-1])
    assert [result["results"][mode]["episodes"] for mode in ("deterministic", "sampled")] == [4, 4], result
    command = [sys.executable, "-m", "mosaic_worker.policies.act", "--checkpoint", str(stopped)]
    with pytest.MonkeyPatch.context() as patched:
        for name, value in place.environment().items():
            patched.setenv(name, value)
        with PolicyClient(command) as client:
            actions, opinion = client.consult(np.arange(16))
    table = arrays_of(stopped)["q"]
    assert np.array_equal(actions, table.argmax(axis=1)) and np.array_equal(opinion["action_values"], table)


def test_event_files_are_written_without_pytorch(place: Place) -> None:
    environment = place.environment() | {"MOSAIC_TENSORBOARD": "1"}
    before = place.runs()
    status, _, err = place.run(*place.words(200), environment=environment)
    assert (status, "TensorBoard" in err) == (0, False), err
    (run,) = place.runs() - before
    (events,) = run.rglob("events.out.tfevents.*")
    assert b"charts/episodic_return" in events.read_bytes()


def test_without_tensorboard_a_run_says_once_that_it_writes_no_event_files(place: Place) -> None:
    environment = place.environment("tensorboard") | {"MOSAIC_TENSORBOARD": "1"}
    before = place.runs()
    status, _, err = place.run(*place.words(200), environment=environment)
    assert status == 0, err
    assert err.count("No TensorBoard files are written: No module named 'tensorboard'") == 1 == err.count("\n"), err
    (run,) = place.runs() - before
    assert not list(run.rglob("events.out.tfevents.*"))


KIT = (
    "mosaic_worker.policies.act",
    "mosaic_worker.policies.evaluate",
    "mosaic_worker.policies.evaluation_team",
    "mosaic_worker.state.checkpoint_writer",
    "mosaic_worker.state.training_state",
    "mosaic_worker.training.session",
)


def test_what_a_worker_needs_of_the_kit_is_imported_without_pytorch() -> None:
    """Where it is installed, too: it takes a second and a half."""
    program = f"import sys, {', '.join(KIT)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
