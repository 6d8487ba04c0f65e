"""What ``mosaic`` does with checkpoints, as a person meets it: listing, evaluating, importing, acting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cleanrl_worker.tests import cleanrl_networks
from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.tests.cli.test_cli_completion import offered
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.made_checkpoints import RUN_A, RUN_B, write_checkpoint, write_run
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.policy_messages import PROTOCOL_VERSION

pytestmark = pytest.mark.usefixtures("workers_train")


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def mosaic(paths: MosaicPaths) -> CommandLine:
    return CommandLine(paths.root)


@pytest.fixture
def listed(paths: MosaicPaths) -> None:
    """A run with two checkpoints that can only be listed, and an import."""
    write_run(paths, RUN_A, "walker", (100, 1000))
    write_checkpoint(
        paths.imported_policy("zoo").checkpoints, 0, algo="dqn", lineage={"kind": "import", "file": "z.pt"}
    )


@pytest.fixture
def trained(paths: MosaicPaths) -> Path:
    """The checkpoint of a run that can act."""
    write_run(paths, RUN_B, "actor")
    return new_checkpoint(paths.run(RUN_B).checkpoints, "ppo")


def refusal(mosaic: CommandLine, *words: str, code: int = 2) -> str:
    """The one sentence of a command line that is refused."""
    answer = mosaic(*words)
    assert (answer.code, answer.out) == (code, ""), answer
    (sentence,) = answer.err.splitlines()
    return sentence.removeprefix("mosaic: ")


# ---- listing -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("listed")
def test_the_list_names_each_checkpoint_and_marks_the_best_and_the_last(mosaic: CommandLine) -> None:
    answer = mosaic("checkpoints")
    assert (answer.code, answer.err) == (0, "")
    _, *rows = answer.out.splitlines()
    assert {row.split()[0] for row in rows} == {"AAAAAA@100", "AAAAAA@1000", "zoo@0"}
    (newest,) = [row for row in rows if row.startswith("AAAAAA@1000 ")]
    assert newest.endswith("best, last")


@pytest.mark.usefixtures("listed")
def test_the_list_can_be_narrowed_down_and_is_json_for_programs(mosaic: CommandLine) -> None:
    def found(*words: str) -> list[str]:
        return [one["id"] for one in mosaic("checkpoints", *words, "--json").json["checkpoints"]]

    assert found("walker") == ["AAAAAA@1000", "AAAAAA@100"]
    assert found("list", "walker") == found("walker")
    assert found("--algo", "dqn") == ["zoo@0"]
    assert found("--env-id", "Acrobot-v1") == []
    assert len(found("--limit", "2")) == 2
    assert len(found("--limit", "2", "--all")) == 3
    assert mosaic("checkpoints", "--limit", "1", "--json").json["total"] == 3


def test_a_data_root_without_checkpoints_says_how_to_get_some(mosaic: CommandLine, paths: MosaicPaths) -> None:
    assert "No checkpoints yet" in mosaic("checkpoints").out
    assert not paths.trainer.exists(), "a daemon was started"


@pytest.mark.usefixtures("listed")
def test_verifying_lists_the_damaged_ones(mosaic: CommandLine, paths: MosaicPaths) -> None:
    file = next(paths.run(RUN_A).checkpoints.glob("*100")) / "model.safetensors"
    file.write_bytes(b"T" * file.stat().st_size)
    assert "damaged" not in mosaic("checkpoints").out
    answer = mosaic("checkpoints", "--verify")
    assert "damaged" in answer.out
    assert "AAAAAA@100 is damaged: model.safetensors was changed since it was written" in answer.err


@pytest.mark.usefixtures("listed")
def test_showing_one_gives_its_history_and_what_to_do_with_it(mosaic: CommandLine) -> None:
    out = mosaic("checkpoints", "show", "walker@100").out
    assert out.startswith("AAAAAA@100 (walker) ok")
    for words in (
        "CartPole-v1",
        "trained from the start",
        "mosaic eval AAAAAA@100",
        "--warm-start AAAAAA@100",
        "--resume AAAAAA@100",
    ):
        assert words in out
    done = mosaic("checkpoints", "show", "walker").out
    assert "--resume AAAAAA@1000 --total-timesteps 2000" in done, "the run has nothing left to do otherwise"
    imported = mosaic("checkpoints", "show", "zoo")
    assert "imported from z.pt" in imported.out
    assert "--resume" not in imported.out
    assert mosaic("checkpoints", "show", "zoo", "--json").json["capabilities"]["resume"] is False


@pytest.mark.usefixtures("listed")
def test_an_unknown_checkpoint_gets_one_sentence_with_the_nearest(mosaic: CommandLine) -> None:
    for words in (
        ("checkpoints", "walkre"),
        ("checkpoints", "show", "walkre"),
        ("eval", "walkre"),
        ("policy", "walkre"),
    ):
        assert "did you mean 'walker'?" in refusal(mosaic, *words, code=3)
    assert json.loads(mosaic("eval", "walkre", "--json").out)["error"]["kind"] == "no_such_run"


@pytest.mark.usefixtures("listed")
def test_checkpoints_complete_by_their_ids_without_a_daemon(mosaic: CommandLine, paths: MosaicPaths) -> None:
    assert offered(mosaic, "mosaic eval aaaa") == ["AAAAAA@1000", "AAAAAA@100"]
    assert offered(mosaic, "mosaic checkpoints show zo") == ["zoo@0"]
    assert offered(mosaic, "mosaic checkpoints sh") == ["show"]
    assert not paths.socket.exists()


# ---- training from one -------------------------------------------------------------------------------------------


def test_a_run_begins_from_a_checkpoint_named_like_anywhere_else(
    mosaic: CommandLine, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ("train", "ppo", "--env-id", "CartPole-v1", "--dry-run", "--no-preflight", "--json")

    def start(*words: str) -> Any:
        return mosaic(*plan, *words).json["config"]["metadata"]["worker"]["config"]["start"]

    resumed = {"mode": "resume", "checkpoint": str(trained)}
    assert start("--warm-start", "actor") == {"mode": "warm_start", "checkpoint": str(trained)}
    assert start("--resume", "actor@1000") == resumed
    monkeypatch.chdir(tmp_path)
    assert start("--resume", f"./{trained.relative_to(tmp_path)}") == resumed
    assert start("--", "--resume", "actor") == resumed, "typed as a flag of the script"
    metadata = mosaic(*plan, "--resume", "actor").json["config"]["metadata"]
    assert metadata["parent"] == {"run_id": trained.parents[1].name, "checkpoint": f"checkpoints/{trained.name}"}
    assert "parent" not in mosaic(*plan, "--warm-start", "actor").json["config"]["metadata"]
    done = refusal(mosaic, *plan[:-1], "--resume", "actor", "--total-timesteps", "1000")
    assert "@1000 stands at step 1,000 already: give more than that to --total-timesteps" in done
    assert "did you mean 'actor'?" in refusal(mosaic, *plan[:-1], "--resume", "actr", code=3)
    elsewhere = ("train", "dqn", "--env-id", "CartPole-v1", "--dry-run", "--no-preflight", "--warm-start", "actor")
    assert "its algorithm is ppo, this run's is dqn" in refusal(mosaic, *elsewhere)
    elsewhere = ("train", "ppo", "--env-id", "Acrobot-v1", "--dry-run", "--no-preflight", "--warm-start", "actor")
    assert "its environment is CartPole-v1, this run's is Acrobot-v1" in refusal(mosaic, *elsewhere)
    (trained / "model.safetensors").write_bytes(b"")
    assert "is damaged and not used" in refusal(mosaic, *plan[:-1], "--resume", "actor")


# ---- evaluating --------------------------------------------------------------------------------------------------


def test_an_evaluation_can_be_repeated_and_is_kept(mosaic: CommandLine, trained: Path, paths: MosaicPaths) -> None:
    first, again = (mosaic("eval", "actor", "--episodes", "4", "--seed", "3", "--json").json for _ in range(2))
    assert first["results"] == again["results"]
    assert list(first["results"]) == ["deterministic", "sampled"]
    one = first["results"]["sampled"]
    assert (len(one["returns"]), one["mean"], one["episodes"]) == (4, pytest.approx(np.mean(one["returns"])), 4)
    assert (first["complete"], first["seed"], first["episodes"]) == (True, 3, 4)
    assert Path(first["file"]).parent == paths.run(RUN_B).evaluations
    shown = mosaic("checkpoints", "show", "actor", "--json").json["evaluations"]
    assert [result["file"] for result in shown] == [first["file"], again["file"]]
    assert "4 episodes, seed 3" in mosaic("checkpoints", "show", "actor").out
    assert not paths.socket.exists(), "a daemon was started"


def test_one_mode_can_be_asked_for_and_a_person_gets_a_table(mosaic: CommandLine, trained: Path) -> None:
    answer = mosaic("eval", str(trained), "--episodes", "2", "--sampled")
    assert (answer.code, answer.err) == (0, "")
    assert "MEDIAN" in answer.out and "IQM" in answer.out
    assert "sampled" in answer.out and "deterministic" not in answer.out


def test_a_recorded_evaluation_keeps_clips_and_measures_the_same(mosaic: CommandLine, trained: Path) -> None:
    words = ("eval", "actor", "--episodes", "4", "--json")
    recorded, plain = mosaic(*words, "--record").json, mosaic(*words).json
    assert recorded["results"] == plain["results"]
    assert {Path(video).parent.name for video in recorded["videos"]} == {"deterministic", "sampled"}
    assert all(Path(video).stat().st_size for video in recorded["videos"])


def test_an_environment_with_other_spaces_is_refused_by_both_names(mosaic: CommandLine, trained: Path) -> None:
    said = refusal(mosaic, "eval", "actor", "--env-id", "Acrobot-v1")
    assert "this policy of CartPole-v1 does not fit Acrobot-v1" in said


def test_a_checkpoint_that_was_tampered_with_is_refused_by_its_hash(mosaic: CommandLine, trained: Path) -> None:
    file = trained / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert "was changed since it was written: its hash does not match" in refusal(mosaic, "eval", "actor")
    file.write_bytes(content[:-10])
    assert "is damaged and not used: model.safetensors has" in refusal(mosaic, "eval", "actor")


@pytest.mark.usefixtures("listed")
def test_a_checkpoint_that_nobody_can_use_is_refused(mosaic: CommandLine, paths: MosaicPaths) -> None:
    write_checkpoint(paths.imported_policy("odd").checkpoints, 0, algo="ppp")
    assert "no installed worker offers the algorithm 'ppp'" in refusal(mosaic, "eval", "odd")
    write_run(paths, RUN_B, "upstream", (5,), algo="cleanrl/pqn")
    assert "cleanrl/pqn is a script that does not know MOSAIC" in refusal(mosaic, "eval", "upstream")


def test_a_terminal_shows_progress_and_ctrl_c_prints_what_was_measured_so_far(
    mosaic: CommandLine, trained: Path
) -> None:
    ours, theirs = os.openpty()
    process = mosaic.process("eval", "actor", "--episodes", "1000000", "--deterministic", stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"/1000000 episodes  mean " not in seen:
        seen += os.read(ours, 1000)  # fails when the process ends, for then nobody has the terminal open
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 130
    assert "Interrupted after" in out.decode()
    (row,) = [line for line in out.decode().splitlines() if line.startswith("deterministic")]
    assert 0 < int(row.split()[-1]) < 1_000_000
    (kept,) = mosaic("checkpoints", "show", "actor", "--json").json["evaluations"]
    assert kept["complete"] is False


# ---- importing ---------------------------------------------------------------------------------------------------


def test_a_file_of_cleanrl_is_imported_evaluated_and_named(mosaic: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "My Agent.cleanrl_model"
    torch.save(cleanrl_networks.DqnNetwork().state_dict(), file)
    words = ("import-checkpoint", str(file), "--algo", "dqn", "--env-id", "CartPole-v1")
    answer = mosaic(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("my-agent@0 holds the 10,934 parameters of My Agent.cleanrl_model")
    assert mosaic(*words, "--json").json["imported_before"] is True
    assert mosaic(*words, "--name", "mine", "--json").json["id"] == "mine@0"
    assert "there is an import 'mine' already" in refusal(mosaic, *words, "--name", "mine")
    train = ("train", "dqn", "--env-id", "CartPole-v1", "--dry-run", "--no-preflight", "--resume", "mine")
    assert "mine@0 was imported" in refusal(mosaic, *train)
    assert mosaic("eval", "mine", "--episodes", "2", "--json").json["results"]["sampled"]["episodes"] == 2


def test_an_import_says_what_its_file_did_not_have(mosaic: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "sac.pt"
    torch.save(cleanrl_networks.SacActor().state_dict(), file)
    words = ("import-checkpoint", str(file), "--algo", "sac_continuous_action", "--env-id", "Pendulum-v1")
    assert "It has no critics and no target_critics: a warm start begins with new ones." in mosaic(*words).out
    assert "critics, target_critics" in mosaic("checkpoints", "show", "sac").out


def test_a_refused_file_leaves_nothing(mosaic: CommandLine, paths: MosaicPaths, tmp_path: Path) -> None:
    whole = tmp_path / "whole.pt"
    torch.save(cleanrl_networks.PpoAgent(), whole)
    words = ("--algo", "ppo", "--env-id", "CartPole-v1")
    assert "reading it would run code" in refusal(mosaic, "import-checkpoint", str(whole), *words)
    assert "there is no file" in refusal(mosaic, "import-checkpoint", str(tmp_path / "absent.pt"), *words)
    assert list(paths.imported.iterdir()) == []


@pytest.mark.parametrize("name", ["last", "../up", "Upper", ""])
def test_a_name_that_cannot_be_one_is_refused(mosaic: CommandLine, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file.pt"
    file.touch()
    words = ("import-checkpoint", str(file), "--algo", "ppo", "--env-id", "CartPole-v1", "--name", name)
    assert refusal(mosaic, *words).startswith("--name")


# ---- acting ------------------------------------------------------------------------------------------------------


def test_the_policy_command_becomes_the_policy_process(mosaic: CommandLine, trained: Path) -> None:
    question = {"observations": {"dtype": "<f4", "shape": [1, 4], "data": "AAAAAAAAAAAAAAAAAAAAAA=="}, "id": 5}
    process = mosaic.process("policy", "actor", "--seed", "1", stdin=subprocess.PIPE)
    out, err = process.communicate(json.dumps(question).encode() + b"\n", timeout=120)
    greeting, answer = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, greeting["protocol"], greeting["algo"]) == (0, PROTOCOL_VERSION, "ppo"), err
    assert (answer["id"], answer["actions"]["shape"]) == (5, [1])
