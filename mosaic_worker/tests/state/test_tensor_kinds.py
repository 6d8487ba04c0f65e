"""Arrays of numpy and tensors of PyTorch are kept alike: one file, read by either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mosaic_worker.state import checkpoints, tensor_kinds
from mosaic_worker.state.checkpoints import CheckpointError
from mosaic_worker.state.plain_state import NotPlainError, encode
from mosaic_worker.state.training_state import StateMismatchError, TrainingState

GRID = np.arange(12.0).reshape(3, 4)
ARRAYS: dict[str, np.ndarray] = {
    "rows": GRID,
    "columns": np.asfortranarray(GRID),
    "part": GRID[:, 1:3],
    "backwards": GRID[::-1],
    "far": GRID.astype(">f4"),
    "scalar": np.array(7),
    "none": np.zeros((0, 3), np.float32),
    "half": np.ones(3, np.float16),
    "mask": GRID > 5,
    "counts": np.arange(4, dtype=np.uint64),
}


def save(directory: Path, tensors: Any, step: int = 1) -> Path:
    return checkpoints.save(directory, algo="a", env_id="e", step=step, tensors=tensors)


def test_any_array_is_kept_as_it_reads_not_as_it_lies_in_memory(tmp_path: Path) -> None:
    found = checkpoints.load(save(tmp_path, ARRAYS))
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.array(name), array, strict=name != "far")


def test_the_file_is_the_same_whichever_library_wrote_it(tmp_path: Path) -> None:
    as_torch = {name: tensor_kinds.as_torch(array) for name, array in ARRAYS.items()}
    both = ARRAYS | {"rows": as_torch["rows"]}
    paths = [save(tmp_path, tensors, step) for step, tensors in enumerate((ARRAYS, as_torch, both))]
    assert len({checkpoints.read_manifest(path).tensor_sha256 for path in paths}) == 1


def test_what_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="q is a list, neither an array of numpy nor a tensor of PyTorch"):
        save(tmp_path, {"q": [1.0]})
    with pytest.raises(NotPlainError, match="q is an array of float128"):
        encode(np.zeros(2, np.longdouble), "q", None)


def test_a_tensor_that_is_not_there_or_has_no_type_in_numpy_is_named(tmp_path: Path) -> None:
    found = checkpoints.load(save(tmp_path, {"q": torch.zeros(2, dtype=torch.bfloat16)}))
    with pytest.raises(CheckpointError, match="holds no table"):
        found.array("table")
    with pytest.raises(CheckpointError, match=r"holds q, which numpy has no type for: .*BFloat16"):
        found.array("q")


def test_tensors_are_pytorchs_once_it_is_imported(tmp_path: Path) -> None:
    """A policy may import it after the checkpoint was read."""
    path = save(tmp_path, {"q": torch.arange(3.0)})
    program = f"""
import sys
from pathlib import Path
from mosaic_worker.state import checkpoints
found = checkpoints.load(Path({str(path)!r}))
print(type(found.tensors["q"]).__name__, "torch" in sys.modules)
import torch
print(type(found.tensors["q"]).__name__, type(found.array("q")).__name__, float(found.tensors["q"].sum()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["ndarray False", "Tensor ndarray 3.0"]


# ---- tables ------------------------------------------------------------------------------------------------------


def learner(table: np.ndarray) -> tuple[TrainingState, SimpleNamespace]:
    owner = SimpleNamespace(q=table, step=0)
    state = TrainingState()
    state.table("q", owner, "q")
    state.attributes("learner", owner, "step")
    return state, owner


def test_a_table_is_resumed_and_warm_started_in_the_memory_that_is_there() -> None:
    state, owner = learner(GRID.copy())
    owner.step = 5
    kept = state.capture()
    for resumes in (True, False):
        other, other_owner = learner(np.zeros((3, 4)))
        view = other_owner.q[1]
        other.restore(*kept) if resumes else other.warm_start(kept[0])
        assert np.array_equal(view, GRID[1]) and other_owner.step == (5 if resumes else 0)


@pytest.mark.parametrize(
    ("kept", "sentence"),
    [
        ({"q": np.zeros((16, 4))}, r"the checkpoint does not fit: q is \[16, 4\] there and \[3, 4\] here"),
        ({"q": torch.zeros(16, 4)}, r"q is \[16, 4\] there and \[3, 4\] here"),
        ({"q": np.zeros((3, 4))}, "q is float64 there and int64 here"),
        ({"q": torch.zeros(3, 4, dtype=torch.bfloat16)}, "q is bfloat16 there and int64 here"),
        ({}, "q is missing"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_changes_nothing(kept: dict[str, Any], sentence: str) -> None:
    state, owner = learner(np.ones((3, 4), np.int64))
    with pytest.raises(StateMismatchError, match=sentence):
        state.warm_start(kept)
    assert (owner.q == 1).all()


def test_networks_and_tables_are_taken_over_together() -> None:
    def parts() -> tuple[TrainingState, SimpleNamespace, torch.nn.Linear]:
        state, owner = learner(np.random.default_rng().random((3, 4)))
        layer = torch.nn.Linear(2, 1)
        state.module("layer", layer)
        return state, owner, layer

    (state, owner, layer), (other, other_owner, other_layer) = parts(), parts()
    tensors = {name: tensor_kinds.as_array(value) for name, value in state.module_tensors().items()}
    other.warm_start(tensors)
    assert np.array_equal(owner.q, other_owner.q) and torch.equal(layer.weight, other_layer.weight)


def test_a_table_that_is_no_array_is_refused_when_it_is_named() -> None:
    with pytest.raises(NotPlainError, match="q is a list: a table is an array of numpy"):
        TrainingState().table("q", SimpleNamespace(q=[1.0]), "q")
