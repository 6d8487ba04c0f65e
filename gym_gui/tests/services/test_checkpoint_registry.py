"""The registry finds every checkpoint on disk, names it, and lists what is damaged with the reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.checkpoints import evaluations
from gym_gui.services.checkpoints.errors import UnknownCheckpointError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.trained_worlds import game_of
from gym_gui.tests.project.test_import_rules import HEAVY, WORKERS, imported_by
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.made_checkpoints import RUN_A, RUN_B, write_checkpoint, write_run
from mosaic_protocol.checkpoint_manifest import MANIFEST_FILE, TENSOR_FILE
from mosaic_protocol.paths import MosaicPaths


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def registry(paths: MosaicPaths) -> TrainingRegistry:
    """Run A with steps 100, 300 (the best) and 500, run B with step 200, and an import."""
    write_run(paths, RUN_A, "walker", (100, 500))
    write_checkpoint(paths.run(RUN_A).checkpoints, 300, metrics={"episodes": 100, "mean_return": 900.0})
    write_run(paths, RUN_B, "runner", (200,))
    write_checkpoint(
        paths.imported_policy("zoo").checkpoints, 0, lineage={"kind": "import", "file": "zoo.pt"}, metrics={}
    )
    return TrainingRegistry(paths)


def ids(registry: TrainingRegistry) -> set[str]:
    return {entry.id for entry in registry.entries()}


def test_an_empty_data_root_has_no_checkpoints(paths: MosaicPaths) -> None:
    assert TrainingRegistry(paths).entries() == []
    assert not paths.root.exists()


def test_a_checkpoint_plays_in_the_environment_that_its_run_made(
    registry: TrainingRegistry, paths: MosaicPaths
) -> None:
    entry = replace(registry.find("AAAAAA@500"), worker="spade_bdi_rl_worker")
    assert game_of(entry) == {}
    args = {"is_slippery": False, "map_name": None, "env_kwargs": {"success_rate": 0.5}, "alpha": 0.5}
    write_checkpoint(paths.run(RUN_A).checkpoints, 700, args=args)
    entry = replace(registry.find("AAAAAA@700"), worker="spade_bdi_rl_worker")
    assert game_of(entry) == {"env_kwargs": {"success_rate": 0.5, "is_slippery": False}}
    (entry.path / MANIFEST_FILE).write_text("{")
    assert game_of(entry) == {}, "what is wrong with it is said by the session that cannot load it"


def test_every_checkpoint_is_listed_with_what_is_known_of_it(registry: TrainingRegistry) -> None:
    assert ids(registry) == {"AAAAAA@100", "AAAAAA@300", "AAAAAA@500", "BBBBBB@200", "zoo@0"}
    entry = registry.find("AAAAAA@300")
    assert (entry.algo, entry.env_id, entry.step, entry.run_name) == ("ppo", "CartPole-v1", 300, "walker")
    assert entry.key == ("learner-1", "CartPole-v1", RUN_A)
    assert (entry.size, len(entry.sha256), str(entry.integrity)) == (7, 64, "unchecked")
    assert entry.metrics["mean_return"] == 900.0
    assert json.loads(json.dumps(entry.to_json()))["path"] == str(entry.path)


def test_the_newest_comes_first_and_best_and_last_are_marked(registry: TrainingRegistry) -> None:
    entries = registry.entries()
    assert [entry.created for entry in entries] == sorted((entry.created for entry in entries), reverse=True)
    assert {entry.id for entry in entries if entry.is_best} == {"AAAAAA@300", "BBBBBB@200"}
    assert {entry.id for entry in entries if entry.is_last} == {"AAAAAA@500", "BBBBBB@200", "zoo@0"}


def test_agent_environment_and_run_lead_to_checkpoints(registry: TrainingRegistry) -> None:
    found = registry.lookup("learner-1", "CartPole-v1", RUN_A)
    assert {entry.step for entry in found} == {100, 300, 500}
    assert registry.lookup("learner-2", "CartPole-v1", RUN_A) == []


# ---- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("walker", "AAAAAA@500"),
        ("AAAAAA", "AAAAAA@500"),
        ("aaaaaa@last", "AAAAAA@500"),
        (RUN_A, "AAAAAA@500"),
        (RUN_A[:11], "AAAAAA@500"),
        ("walker@best", "AAAAAA@300"),
        ("walker@100", "AAAAAA@100"),
        ("walker@step-000000000100", "AAAAAA@100"),
        ("last", "BBBBBB@200"),
        ("last@best", "BBBBBB@200"),
        ("zoo", "zoo@0"),
        ("zoo@0", "zoo@0"),
    ],
)
def test_a_checkpoint_answers_to_its_names(registry: TrainingRegistry, name: str, found: str) -> None:
    assert registry.find(name).id == found


def test_a_path_names_a_checkpoint_a_file_of_it_or_the_last_of_a_run(
    registry: TrainingRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = registry.find("walker@100").path
    assert registry.find(str(path)).id == "AAAAAA@100"
    assert registry.find(str(path / TENSOR_FILE)).id == "AAAAAA@100"
    assert registry.find(str(path.parent)).id == "AAAAAA@500"
    assert registry.find(str(path.parent.parent)).id == "AAAAAA@500"
    monkeypatch.chdir(path.parent)
    assert registry.find(path.name).id == "AAAAAA@100"
    assert registry.find(f"./{path.name}").id == "AAAAAA@100"


def test_a_checkpoint_elsewhere_on_the_disk_is_found_by_its_path(registry: TrainingRegistry, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "runs" / "by-hand" / "checkpoints", 7)
    entry = registry.find(str(path))
    assert (entry.origin, entry.id, entry.step) == ("file", str(path), 7)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("walkr", "no run with a checkpoint is called 'walkr'; did you mean 'walker'?"),
        ("01K9ZQ3", "'01K9ZQ3' may be AAAAAA (walker), BBBBBB (runner): give the id"),
        ("walker@400", "AAAAAA (walker) has no checkpoint of step 400; its steps are 100, 300, 500"),
        ("walker@beste", "'beste' is no step: write best, last or one of 100, 300, 500"),
        ("zoo@best", "zoo has no best checkpoint: too few episodes were played to tell"),
        ("/no/such/place", "there is no checkpoint at /no/such/place: `mosaic checkpoints` lists what there is"),
    ],
)
def test_an_unknown_name_gets_one_sentence(registry: TrainingRegistry, name: str, sentence: str) -> None:
    with pytest.raises(UnknownCheckpointError) as error:
        registry.find(name)
    assert str(error.value) == sentence


def test_a_run_without_a_checkpoint_says_so(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    write_run(paths, "01K9ZQ3V7Z0000000000CCCCCC", "starter")
    with pytest.raises(UnknownCheckpointError, match=r"CCCCCC \(starter\) has no checkpoint: .* --no-checkpoints"):
        registry.find("last")


def test_runs_whose_ids_end_alike_get_longer_names(paths: MosaicPaths) -> None:
    one, other = "01K9ZQ3V7X00000000000XSAMESA"[:26], "01K9ZQ3V7X00000000001XSAMESA"[:26]
    for run_id in (one, other):
        write_run(paths, run_id, "twin", (5,))
    registry = TrainingRegistry(paths)
    names = ids(registry)
    assert len(names) == 2
    assert {registry.find(name).run_id for name in names} == {one, other}
    with pytest.raises(UnknownCheckpointError, match="'twin' may be"):
        registry.find("twin")


def test_folders_that_are_no_runs_are_passed_over(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    write_checkpoint(paths.runs / "notes" / "checkpoints", 1)
    (paths.imported / "Bad Name").mkdir()
    assert len(ids(registry)) == 5


# ---- damage ------------------------------------------------------------------------------------------------------


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """A file of a checkpoint gives way to something else of its name."""

    def damage(path: Path) -> None:
        (path / name).unlink()
        make(path / name)

    return damage


def holes(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(10**13)


def resealed(**changes: Any) -> Callable[[Path], object]:
    """A description that a stranger wrote: its hash holds, its content is not what it should be."""

    def damage(path: Path) -> None:
        document = json.loads((path / MANIFEST_FILE).read_text())
        del document["sha256"]
        document |= changes
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        sealed = document | {"sha256": hashlib.sha256(text.encode()).hexdigest()}
        (path / MANIFEST_FILE).write_text(json.dumps(sealed))

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated tensors": (lambda path: (path / TENSOR_FILE).write_bytes(b"x"), "model.safetensors has 1 bytes"),
    "no tensors": (lambda path: (path / TENSOR_FILE).unlink(), "model.safetensors cannot be read"),
    "no description": (lambda path: (path / MANIFEST_FILE).unlink(), "checkpoint.json cannot be read"),
    "not JSON": (lambda path: (path / MANIFEST_FILE).write_text("{"), "checkpoint.json is damaged"),
    "changed": (
        lambda path: (path / MANIFEST_FILE).write_text((path / MANIFEST_FILE).read_text().replace("ppo", "dqn")),
        "checkpoint.json was changed since it was written",
    ),
    "a pipe as description": (replaced(MANIFEST_FILE, os.mkfifo), "checkpoint.json cannot be read: it is a named pipe"),
    "zeros without end": (
        replaced(MANIFEST_FILE, lambda file: file.symlink_to("/dev/zero")),
        "checkpoint.json cannot be read: it is a link",
    ),
    "a folder as description": (replaced(MANIFEST_FILE, Path.mkdir), "checkpoint.json cannot be read: it is a folder"),
    "terabytes of description": (replaced(MANIFEST_FILE, holes), "checkpoint.json cannot be read: it is larger than"),
    "a nested description": (
        lambda path: (path / MANIFEST_FILE).write_text("[" * 1_000_000),
        "checkpoint.json is damaged",
    ),
    "a list without end": (
        lambda path: (path / MANIFEST_FILE).write_text("[" + "0," * 5_000_000 + "0]"),
        "checkpoint.json is damaged",
    ),
    "infinity": (
        lambda path: (path / MANIFEST_FILE).write_text('{"metrics": {"mean_return": 1e999}}'),
        "checkpoint.json is damaged",
    ),
    "a step that is none": (resealed(step="many"), "checkpoint.json is damaged: step is not"),
    "a step beyond all": (resealed(step=10**400), "checkpoint.json is damaged: step is not"),
    "metrics that are none": (resealed(metrics=[1]), "checkpoint.json is damaged: metrics is not"),
    "a date that is none": (resealed(created=5), "checkpoint.json is damaged: created is not"),
    "a pipe as tensors": (replaced(TENSOR_FILE, os.mkfifo), "model.safetensors cannot be read: it is a named pipe"),
    "tensors elsewhere": (
        replaced(TENSOR_FILE, lambda file: file.symlink_to("/dev/zero")),
        "model.safetensors cannot be read: it is a link",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_checkpoint_is_listed_with_the_reason(registry: TrainingRegistry, kind: str) -> None:
    damage, reason = DAMAGES[kind]
    registry.entries()  # the index knows it as whole
    damage(registry.find("walker@100").path)
    (entry,) = [entry for entry in registry.entries() if entry.id == "AAAAAA@100"]
    assert entry.integrity.state == "damaged"
    assert entry.integrity.reason.startswith(reason)
    assert entry.step == 100
    assert len(ids(registry)) == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"created": "0001-01-01T00:00:00", "metrics": {"episodes": "many", "mean_return": []}},
        {
            "metrics": {"episodes": 10**400, "mean_return": 10**400},
            "lineage": {"fresh": 5, "notes": {"a": 1}, "kind": []},
        },
        {"algo": "ppo; rm -rf ~\x1b]52;c;x\x07", "spaces": {"observation": [1]}},
    ],
)
def test_whatever_a_description_says_it_can_be_listed_and_shown(
    registry: TrainingRegistry, paths: MosaicPaths, changes: dict[str, Any]
) -> None:
    resealed(**changes)(registry.find("walker@100").path)
    assert len(ids(registry)) == 5
    for words in (("checkpoints", "--all"), ("checkpoints", "--all", "--json"), ("checkpoints", "show", "walker@100")):
        answer = CommandLine(paths.root)(*words)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.replace("\n", "").isprintable()
        assert "train ppo; rm" not in answer.out


def test_a_pipe_under_the_name_of_the_tensors_does_not_stop_a_check_of_all_bytes(registry: TrainingRegistry) -> None:
    """Also where the description claims that nothing was to be expected there."""
    path = registry.find("walker@100").path
    replaced(TENSOR_FILE, os.mkfifo)(path)
    resealed(tensor_bytes=0)(path)
    states = {entry.id: entry.integrity.state for entry in registry.entries(check_bytes=True)}
    assert states.pop("AAAAAA@100") == "damaged"
    assert set(states.values()) == {"ok"}


def test_a_folder_that_cannot_be_listed_hides_no_other(
    registry: TrainingRegistry, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may list everything, so the refusal is made up."""
    locked = paths.run(RUN_A).checkpoints
    plain = Path.iterdir

    def iterdir(path: Path) -> Any:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    found = {entry.id: str(entry.integrity) for entry in registry.entries()}
    assert found.pop("AAAAAA") == "damaged: the folder checkpoints cannot be read: Permission denied"
    assert set(found) == {"BBBBBB@200", "zoo@0"}


@pytest.mark.parametrize("make", [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), holes, Path.mkdir])
def test_a_config_that_is_no_file_costs_the_name_alone(
    registry: TrainingRegistry, paths: MosaicPaths, make: Callable[[Path], object]
) -> None:
    paths.run_config(RUN_A).unlink()
    make(paths.run_config(RUN_A))
    assert len(ids(registry)) == 5
    assert registry.find("AAAAAA@100").run_name == ""


HOSTILE_RESULTS: list[Callable[[Path], object]] = [
    os.mkfifo,
    lambda file: file.symlink_to("/dev/zero"),
    holes,
    lambda file: file.write_text("[" * 1_000_000),
    lambda file: file.write_text('{"sha256": "SHA", "results": {"deterministic": {"episodes": 1, "mean": "x"}}}'),
    lambda file: file.write_text('{"sha256": "SHA", "results": [1]}'),
    lambda file: file.write_text('{"sha256": "SHA", "results": {"deterministic": {"episodes": 1, "mean": 1e999}}}'),
]


def test_a_result_that_a_stranger_left_hides_no_other(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    entry = registry.find("walker@100")
    ours = evaluations.keep(entry, {"sha256": entry.sha256, "results": {"deterministic": {"episodes": 1, "mean": 5.0}}})
    for number, make in enumerate(HOSTILE_RESULTS):
        file = ours.with_name(f"{entry.path.name}--{number}.json")
        make(file)
        if file.is_file() and file.stat().st_size < 1000:
            file.write_text(file.read_text().replace("SHA", entry.sha256))
    assert [result["file"] for result in evaluations.kept(entry)] == [str(ours)]
    assert CommandLine(paths.root)("checkpoints", "show", "walker@100").code == 0


def test_bytes_that_changed_within_their_length_are_found_by_checking(registry: TrainingRegistry) -> None:
    (registry.find("walker@100").path / TENSOR_FILE).write_bytes(b"TENSORS")
    assert {entry.integrity.state for entry in registry.entries()} == {"unchecked"}
    states = {entry.id: entry.integrity.state for entry in registry.entries(check_bytes=True)}
    assert states.pop("AAAAAA@100") == "damaged"
    assert set(states.values()) == {"ok"}


# ---- the index ---------------------------------------------------------------------------------------------------


def test_deleting_the_index_loses_nothing(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    first = registry.entries()
    assert paths.checkpoint_index.exists()
    paths.checkpoint_index.unlink()
    assert registry.entries() == first == registry.entries()


@pytest.mark.parametrize("content", [b"", b"not a database at all, not by far", b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_damaged_index_changes_nothing(registry: TrainingRegistry, paths: MosaicPaths, content: bytes) -> None:
    first = registry.entries()
    paths.checkpoint_index.write_bytes(content)
    assert registry.entries() == first == registry.entries()


def test_an_index_that_is_locked_does_not_keep_anyone_waiting(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    first = registry.entries()
    connection = sqlite3.connect(paths.checkpoint_index)
    connection.execute("BEGIN EXCLUSIVE")
    assert registry.entries() == first
    connection.close()


def test_what_was_written_again_is_read_again(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    registry.entries()
    path = registry.find("runner").path
    shutil.rmtree(path)
    write_checkpoint(path.parent, 200, algo="dqn")
    os.utime(path / MANIFEST_FILE, ns=(1, 1))
    assert {entry.algo for entry in registry.entries() if entry.run_id == RUN_B} == {"dqn"}
    shutil.rmtree(paths.run(RUN_B).directory)
    assert "BBBBBB@200" not in ids(registry)
    with sqlite3.connect(paths.checkpoint_index) as connection:
        assert not [row for row in connection.execute("SELECT path FROM files") if RUN_B in row[0]]
    connection.close()


# ---- history and evaluations ---------------------------------------------------------------------------------------


def test_the_history_of_a_checkpoint_goes_back_to_its_beginning(registry: TrainingRegistry, paths: MosaicPaths) -> None:
    child, parent = "01K9ZQ3V7Z0000000000CCCCCC", registry.find("walker@100")
    lineage = {"kind": "resume", "checkpoint": f"{RUN_A}/{parent.path.name}", "sha256": parent.sha256}
    write_run(paths, child, "later", (600,), lineage=lineage)
    (first,) = registry.ancestry(registry.find("later"))
    assert (first.kind, first.entry) == ("resume", parent)
    shutil.rmtree(parent.path)
    (first,) = registry.ancestry(registry.find("later"))
    assert (first.kind, first.entry) == ("resume", None)
    assert registry.ancestry(registry.find("runner")) == []
    assert [one.kind for one in registry.ancestry(registry.find("zoo"))] == ["import"]


def test_results_are_kept_beside_the_checkpoint_and_belong_to_its_very_bytes(registry: TrainingRegistry) -> None:
    entry = registry.find("walker@100")
    before = sorted(os.listdir(entry.path))
    file = evaluations.keep(entry, {"sha256": entry.sha256, "seed": 7})
    evaluations.keep(entry, {"sha256": "of other tensors", "seed": 8})
    (file.parent / f"{entry.path.name}--broken.json").write_text("{")
    assert file.parent == entry.path.parents[1] / "evaluations"
    assert [result["seed"] for result in evaluations.kept(entry)] == [7]
    assert evaluations.kept(registry.find("walker@300")) == []
    assert sorted(os.listdir(entry.path)) == before


def test_the_registry_imports_neither_qt_nor_torch_nor_a_worker() -> None:
    assert (
        imported_by("gym_gui.services.checkpoints.registry", "gym_gui.services.checkpoints.use") & (HEAVY | WORKERS)
        == set()
    )
