"""``mosaic datasets`` as a person uses it: collecting, measuring, downloading, checking, pruning. No daemon."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.services.datasets import DatasetRegistry, DatasetsError, collecting
from gym_gui.services.datasets import references as measuring
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.made_checkpoints import RUN_A, RUN_B, write_run
from mosaic_protocol.datasets import DATA
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.offline import open_dataset
from mosaic_worker.tests.offline import made_sets


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def mosaic(paths: MosaicPaths) -> CommandLine:
    return CommandLine(paths.root)


def refused(mosaic: CommandLine, *words: str, code: int = 2) -> str:
    answer = mosaic(*words)
    assert answer.code == code, answer
    (sentence,) = answer.err.splitlines()
    return sentence.removeprefix("mosaic: ")


def actor(paths: MosaicPaths, algo: str = "dqn") -> None:
    write_run(paths, RUN_B, "actor")
    new_checkpoint(paths.run(RUN_B).checkpoints, algo)


def test_policies_are_collected_in_whole_episodes_with_who_acted(mosaic: CommandLine, paths: MosaicPaths) -> None:
    actor(paths)
    words = ("--from", "actor", "--mix", "random:0.8,expert:0.2", "--steps", "200", "--seed", "4")
    told = mosaic("datasets", "collect", "mixed", *words, "--json").json
    assert told["integrity"] == "verified" and told["policy_mix"] == {"random": 0.8, "expert": 0.2}
    assert set(told["actors"]) == {"random", "expert"} and told["actors"]["random"] >= 160 <= told["steps"] - 40
    assert told["env_id"] == "CartPole-v1" and told["observation_space_from"] == "environment"
    with open_dataset("mixed", paths=paths) as dataset:
        found = dataset.transitions()
        assert found.terminals.sum() == dataset.episodes and dataset.is_discrete
    assert [path.name for path in paths.dataset("mixed").iterdir() if path.is_dir()] == []
    assert not paths.socket.exists(), "a daemon was started"


def test_the_progress_of_a_collection_goes_once_through_all_of_its_parts(
    paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor(paths)
    parts = collecting.parse_mix("random:0.5,expert:0.5", ["actor"], paths)
    told: list[tuple[str, int, int]] = []

    def stop(*_: object) -> dict[str, object]:
        raise DatasetsError("all parts were played")

    monkeypatch.setattr(collecting, "_play", lambda part, wanted, *_: [wanted - 20, 20])
    monkeypatch.setattr(collecting, "of_folder", lambda place: place)
    monkeypatch.setattr(collecting, "_told", stop)
    with pytest.raises(DatasetsError, match="all parts were played"):
        collecting.collect("mixed", parts, 100, paths, progress=lambda *so_far: told.append(so_far))
    assert told == [("random", 30, 100), ("random", 50, 100), ("expert", 80, 100), ("expert", 100, 100)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--mix", "random:0.5,expert:0.2"), "the parts of --mix are 0.7 together, not 1"),
        (("--mix", "much"), "--mix is written random:0.8,expert:0.2, got 'much'"),
        (("--mix", "medium:0.5,expert:0.5"), "the mix names policies (medium, expert) and --from gives 1"),
    ],
)
def test_a_mix_that_is_none_is_refused(
    words: tuple[str, ...], sentence: str, mosaic: CommandLine, paths: MosaicPaths
) -> None:
    actor(paths)
    assert sentence in refused(mosaic, "datasets", "collect", "mixed", "--from", "actor", *words)


def test_references_are_measured_by_playing_and_kept(
    mosaic: CommandLine, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor(paths, "sac_continuous_action")
    folder = made_sets.flat_set(paths, "pend", made_sets.columns(100, last=20), env_id="Pendulum-v1")
    # The untrained policy is worse than random actions: what is no expert is not taken for one.
    told = refused(mosaic, "datasets", "references", "pend", "--from", "actor", "--episodes", "2", "--seed", "3")
    assert "is no expert: its mean return is" in told
    monkeypatch.setattr(measuring, "_mean", lambda one, mode, *_: {"random": -1200.0, "deterministic": -200.0}[mode])
    assert mosaic("datasets", "references", "pend", "--from", "actor").out == (
        "pend: random -1,200, expert -200 (measured here over 100 episodes)\n"
    )
    kept = DatasetRegistry(paths).find("pend").manifest.references
    assert kept is not None and kept.normalised(-700.0) == 50 and kept.whose == "mosaic" and kept.episodes == 100
    made_sets.describe(folder, "d4rl", 5, 100, env_id="Other-v0")
    told = refused(mosaic, "datasets", "references", "pend", "--from", "actor", "--episodes", "2")
    assert "is of Pendulum-v1, the dataset 'pend' of Other-v0" in told


def test_a_replay_buffer_becomes_a_dataset(mosaic: CommandLine, paths: MosaicPaths) -> None:
    seen = np.arange(24, dtype="f4").reshape(6, 4)
    following = seen + 4
    following[3] = 99  # the episode was truncated here
    rows = np.concatenate([seen, following, np.zeros((6, 1)), np.ones((6, 1)), [[0]] * 5 + [[1]]], axis=1)
    write_run(paths, RUN_B, "actor")
    plain = new_checkpoint(paths.run(RUN_B).checkpoints, "dqn", step=5)
    assert plain.is_dir() and "holds no replay buffer" in refused(
        mosaic, "datasets", "from-run", "actor", "x", "--buffer"
    )
    tensors = {"buffer.contents.rows": torch.tensor(np.roll(rows, 2, axis=0), dtype=torch.float32)}
    state = {"buffer": {"contents": {"capacity": 6, "position": 2, "rows": {"$tensor": "buffer.contents.rows"}}}}
    new_checkpoint(paths.run(RUN_B).checkpoints, "dqn", step=9, tensors=tensors, state=state)
    told = mosaic("datasets", "from-run", "actor", "buffer", "--buffer", "--json").json
    assert (told["steps"], told["episodes"], told["actors"]) == (6, 2, {"dqn": 6})
    with open_dataset("buffer", paths=paths) as dataset:
        found = dataset.transitions()
    assert np.array_equal(found.observations, seen) and np.array_equal(found.next_observations, following)
    assert found.timeouts.tolist() == [False] * 3 + [True] + [False] * 2 and found.terminals[-1]
    assert "choose one of --only" in refused(
        mosaic, "datasets", "from-run", "actor", "x", "--buffer", "--only", "actor=me"
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "www").mkdir()
    made_sets.write_flat(tmp_path / "www" / "data.hdf5", made_sets.columns(300, last=30))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "www"))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/data.hdf5"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_becomes_a_dataset(site: str, mosaic: CommandLine, paths: MosaicPaths) -> None:
    told = mosaic("datasets", "download", site, "fetched", "--json").json
    assert told["steps"] == 300 and told["source"]["url"] == site and told["source"]["kind"] == "download"
    assert "its sha256 is" in refused(mosaic, "datasets", "download", site, "other", "--sha256", "0" * 64)
    assert "there is a dataset 'fetched' already" in refused(mosaic, "datasets", "download", site, "fetched")
    assert [path.name for path in (paths.datasets / ".downloads").iterdir() if path.suffix != ".lock"] == []


def test_the_badge_says_what_is_known_of_the_data(mosaic: CommandLine, paths: MosaicPaths) -> None:
    folder = made_sets.flat_set(paths, "poles", made_sets.columns(50, last=9))

    def badge() -> str:
        (one,) = mosaic("datasets", "list", "--json").json["datasets"]
        return str(one["integrity"])

    assert badge() == "unverified"
    assert mosaic("datasets", "verify", "poles").out == "poles: verified\n" and badge() == "verified"
    content = (folder / DATA).read_bytes()
    (folder / DATA).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert badge() == "unverified", "same size, another file: nobody has looked at it yet"
    answer = mosaic("datasets", "verify", "poles", "--json")
    assert answer.code == 1 and json.loads(answer.out)["integrity"] == "corrupt" and badge() == "corrupt"
    (folder / DATA).write_bytes(content[:-1])
    assert badge() == "corrupt"
    (folder / DATA).unlink()
    assert badge() == "absent" and mosaic("datasets", "show", "poles").code == 1


def test_pruning_keeps_what_a_checkpoint_learned_from(mosaic: CommandLine, paths: MosaicPaths) -> None:
    for name in ("used", "free"):
        made_sets.flat_set(paths, name, made_sets.columns(50, last=9))
    write_run(paths, RUN_A, "learner")
    lineage = {"offline_dataset": {"name": "used", "sha256": "0" * 64}}
    new_checkpoint(paths.run(RUN_A).checkpoints, "dqn", lineage=lineage)
    told = refused(mosaic, "datasets", "prune", "free", "used")
    assert "the dataset 'used' is needed by 1 checkpoint" in told and "--force removes it all the same" in told
    assert len(DatasetRegistry(paths).list()) == 2
    assert "needed by 1 checkpoint" in mosaic("datasets", "prune", "used", "--dry-run").out
    assert "free: removed" in mosaic("datasets", "prune", "free").out
    assert mosaic("datasets", "prune", "used", "--force", "--json").json["removed"] is True
    assert list(paths.datasets.iterdir()) == []
    assert "there is no dataset 'used'" in refused(mosaic, "datasets", "prune", "used", code=3)


def test_everything_that_is_known_is_shown(mosaic: CommandLine, paths: MosaicPaths, tmp_path: Path) -> None:
    file = tmp_path / "given.hdf5"
    made_sets.write_flat(file, made_sets.columns(300, last=30))
    assert mosaic("datasets", "import", str(file), "mine").code == 0
    shown = mosaic("datasets", "show", "mine").out
    for word in (
        "quartiles",
        "observations",
        "references",
        "given.hdf5",
        "matches",
        "Doubtful: consecutive observations",
    ):
        assert word in shown, word
    assert "verified, doubtful" in mosaic("datasets").out
    assert "give one of --minari ID and --d4rl FILE" in refused(mosaic, "datasets", "export", "mine")
    assert mosaic("datasets", "export", "mine", "--d4rl", str(tmp_path / "o.hdf5"), "--json").json["rows"] == 300
    assert mosaic("datasets", "split", "mine", "--json").json["datasets"][1]["name"] == "mine-test"
    assert mosaic("datasets", "merge", "mine-train", "mine-test", "--into", "whole", "--json").json["steps"] == 300
