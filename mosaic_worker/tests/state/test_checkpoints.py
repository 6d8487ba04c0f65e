"""A checkpoint is whole or absent, and one that was touched is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError

from mosaic_protocol import checkpoint_manifest
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import CheckpointError, NotNowError

TENSORS = {"actor.0.weight": torch.arange(12.0).reshape(3, 4), "steps": torch.tensor(7)}


def save(directory: Path, step: int = 50_000, **changes: Any) -> Path:
    fields: dict[str, Any] = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "step": step,
        "tensors": TENSORS,
        "state": {"iteration": 98},
        "args": {"learning_rate": 2.5e-4, "target_kl": None},
        "spaces": {"action": {"type": "Discrete", "n": 2}},
    }
    return checkpoints.save(directory, **(fields | changes))


def visible_and_hidden(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def flip_last_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_loaded_checkpoint_is_what_was_saved(tmp_path: Path) -> None:
    path = save(tmp_path)
    loaded = checkpoints.load(path)
    assert path.name == "step-000000050000"
    assert loaded.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(loaded.tensors[name], tensor) for name, tensor in TENSORS.items())
    manifest = loaded.manifest
    assert (manifest.algo, manifest.env_id, manifest.step) == ("ppo", "CartPole-v1", 50_000)
    assert manifest.state == {"iteration": 98}
    assert manifest.args == {"learning_rate": 2.5e-4, "target_kl": None}
    assert manifest.spaces == {"action": {"type": "Discrete", "n": 2}}
    assert manifest.created.endswith("+00:00")
    assert manifest.versions["torch"].startswith(torch.__version__.partition("+")[0])
    assert manifest.versions["gymnasium"] == gymnasium.__version__


def test_tensors_that_share_memory_are_saved_each_with_its_own(tmp_path: Path) -> None:
    vector = torch.arange(6.0)
    views = {"first": vector[:2], "rest": vector[2:].view(2, 2), "same": vector, "again": vector}
    loaded = checkpoints.load(save(tmp_path, tensors=views))
    assert all(torch.equal(loaded.tensors[name], view) for name, view in views.items())


def test_a_truncated_tensor_file_is_refused_by_name(tmp_path: Path) -> None:
    file = save(tmp_path) / checkpoints.TENSOR_FILE
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match=r"model\.safetensors has \d+ bytes, \d+ were written\.$"):
        checkpoints.load(file.parent)


def test_a_tensor_file_with_one_changed_byte_is_refused_by_name(tmp_path: Path) -> None:
    file = save(tmp_path) / checkpoints.TENSOR_FILE
    flip_last_byte(file)
    with pytest.raises(CheckpointError, match=r"model\.safetensors was changed since it was written"):
        checkpoints.load(file.parent)


def test_a_changed_description_is_refused_by_name(tmp_path: Path) -> None:
    file = save(tmp_path) / checkpoints.MANIFEST_FILE
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"env_id": "Acrobot-v1"}))
    with pytest.raises(CheckpointError, match=r"checkpoint\.json was changed since it was written"):
        checkpoints.load(file.parent)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"schema": 1}', "\x00\x01"])
def test_a_damaged_description_is_refused_in_one_sentence(tmp_path: Path, content: str) -> None:
    path = save(tmp_path)
    (path / checkpoints.MANIFEST_FILE).write_text(content)
    with pytest.raises(CheckpointError) as refused:
        checkpoints.load(path)
    assert str(refused.value).startswith(str(path / checkpoints.MANIFEST_FILE))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("missing", [checkpoints.TENSOR_FILE, checkpoints.MANIFEST_FILE])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    path = save(tmp_path)
    (path / missing).unlink()
    with pytest.raises(CheckpointError, match=f"{missing} cannot be read"):
        checkpoints.load(path)


def test_a_newer_format_is_refused_with_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path)
    monkeypatch.setattr(checkpoint_manifest, "SCHEMA_VERSION", 2)
    with pytest.raises(CheckpointError, match="has format 1, this version of MOSAIC reads 2"):
        checkpoints.load(path)


def test_a_crash_before_the_rename_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(BaseException):
        """Stands for the power going: nothing after it runs."""

    def crash(*_: Any, **__: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_publish", crash)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Crash):
            save(tmp_path)
    assert len(visible_and_hidden(tmp_path)) == 1
    assert checkpoints.list_checkpoints(tmp_path) == []
    later = save(tmp_path, step=60_000)
    assert visible_and_hidden(tmp_path) == [later.name]


def test_files_and_directories_are_synced_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(checkpoints, "sync", lambda path: synced.append(path.name))
    path = save(tmp_path / "checkpoints")
    *files, building, parent = synced
    assert sorted(files) == sorted([checkpoints.TENSOR_FILE, checkpoints.MANIFEST_FILE])
    assert path.name in building and building != path.name
    assert parent == "checkpoints"


@pytest.mark.parametrize("state", [{"loss": float("nan")}, {"array": np.zeros(2)}])
def test_a_state_that_is_not_json_is_refused_and_leaves_nothing(tmp_path: Path, state: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match=r"Could not write the checkpoint .*step-000000050000"):
        save(tmp_path, state=state)
    assert visible_and_hidden(tmp_path) == []


def test_the_same_step_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    save(tmp_path, state={"iteration": 1})
    path = save(tmp_path, state={"iteration": 2})
    assert checkpoints.load(path).manifest.state == {"iteration": 2}
    assert visible_and_hidden(tmp_path) == [path.name]


REPLACED_UNTIL_A_CRASH = """
import os, pathlib, sys
import numpy
from mosaic_worker.state import checkpoints
left = [int(sys.argv[2])]
def crashing(call):
    def wrapper(*arguments, **keywords):
        if left[0] == 0:
            os._exit(9)
        left[0] -= 1
        return call(*arguments, **keywords)
    return wrapper
for module, name in ((pathlib.Path, "rename"), (os, "rmdir"), (os, "unlink"), (os, "fsync")):
    setattr(module, name, crashing(getattr(module, name)))
about = {"algo": "ppo", "env_id": "CartPole-v1", "step": 50_000, "tensors": {"steps": numpy.array(7)}}
checkpoints.save(pathlib.Path(sys.argv[1]), state={"iteration": 2}, **about)
"""
"""Without PyTorch, whose import would take longer than everything else."""


def test_a_crash_at_any_instant_of_a_replacement_leaves_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    checkout, found = Path(checkpoints.__file__).parents[2], []
    for instant in range(100):
        folder = tmp_path / str(instant)
        final = save(folder, state={"iteration": 1})
        ended = subprocess.run(
            [sys.executable, "-c", REPLACED_UNTIL_A_CRASH, str(folder), str(instant)],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            timeout=60,
            check=False,
        )
        listed = checkpoints.list_checkpoints(folder)
        assert listed, f"nothing is listed after a crash at {instant}"
        for path in (*listed, final):
            assert checkpoints.load(path).manifest.step == 50_000
        found.append(checkpoints.load(final).manifest.state["iteration"])
        later = save(folder, step=60_000)
        assert visible_and_hidden(folder) == [final.name, later.name]
        assert checkpoints.load(final).manifest.state["iteration"] == found[-1]
        if ended.returncode == 0:
            break
    assert found == sorted(found) and set(found) == {1, 2}


def test_a_replacement_that_fails_leaves_the_old_one_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, rename = save(tmp_path, state={"iteration": 1}), Path.rename

    def refuse_to_publish(path: Path, target: Path) -> Path:
        if path.name.startswith("."):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse_to_publish)
        with pytest.raises(CheckpointError):
            save(tmp_path, state={"iteration": 2})
    assert visible_and_hidden(tmp_path) == [final.name]
    assert checkpoints.load(final).manifest.state == {"iteration": 1}


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "full"),
        (OSError(errno.EIO, "Input/output error"), "folder"),
        (OSError(errno.EISDIR, "Is a directory"), "never"),
        (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"), "full"),
        (SafetensorError("Error while serializing: I/O error: Permission denied (os error 13)"), "folder"),
        (SafetensorError("Error while serializing: InvalidHeader"), "never"),
    ],
)
def test_what_may_pass_is_distinguished_from_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, passes: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(CheckpointError) as refused:
        save(tmp_path)
    found = refused.value
    assert ("never" if not isinstance(found, NotNowError) else "full" if found.full else "folder") == passes


def test_checkpoints_are_listed_by_step_and_nothing_else_is(tmp_path: Path) -> None:
    steps = [2_000_000_000_000, 5, 70_000]
    paths = {step: save(tmp_path, step=step) for step in steps}
    (tmp_path / "notes").mkdir()
    (tmp_path / "step-000000000009").write_text("a file, not a checkpoint")
    assert checkpoints.list_checkpoints(tmp_path) == [paths[step] for step in sorted(steps)]
    assert checkpoints.list_checkpoints(tmp_path / "absent") == []


def test_pruning_keeps_the_last_ones(tmp_path: Path) -> None:
    first, second, third = (save(tmp_path, step=step) for step in (10, 20, 30))
    assert checkpoints.prune(tmp_path, keep_last=2) == [first]
    assert visible_and_hidden(tmp_path) == [second.name, third.name]
    assert checkpoints.prune(tmp_path, keep_last=2) == []
    with pytest.raises(ValueError, match="at least 1, got 0"):
        checkpoints.prune(tmp_path, keep_last=0)


def test_a_space_is_described_by_kind_shape_and_count() -> None:
    box = checkpoints.describe_space(gymnasium.spaces.Box(-1, 1, (2, 3), np.float32))
    assert (box["type"], box["shape"], box["dtype"]) == ("Box", [2, 3], "float32")
    discrete = checkpoints.describe_space(gymnasium.spaces.Discrete(3, start=1))
    assert (discrete["type"], discrete["n"], discrete["start"]) == ("Discrete", 3, 1)
    assert json.loads(json.dumps([box, discrete])) == [box, discrete]
