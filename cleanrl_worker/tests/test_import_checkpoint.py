"""Files of CleanRL's become checkpoints that act the same; whatever does not fit or is not safe is refused."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from cleanrl_worker.cleanrl import dqn, sac_continuous_action
from cleanrl_worker.import_checkpoint import convert
from cleanrl_worker.tests import cleanrl_networks as theirs
from cleanrl_worker.tests.hostile_files import HOSTILE_PICKLES, HOSTILE_SAFETENSORS, OSC_52, Maker
from cleanrl_worker.tests.policy_tools import ENVIRONMENTS, loaded_from
from mosaic_protocol.checkpoint_manifest import file_hash
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import newest_tensors, run_main
from mosaic_worker.training.session import UsageError

NETWORKS: dict[str, type[nn.Module]] = {
    "ppo": theirs.PpoAgent,
    "dqn": theirs.DqnNetwork,
    "c51": theirs.C51Network,
    "sac_continuous_action": theirs.SacActor,
    "td3_continuous_action": theirs.Td3Actor,
    "ppo_continuous_action": theirs.ContinuousPpoAgent,
}


def saved(file: Path, content: Any) -> Path:
    torch.save(content, file)
    return file


def converted(file: Path, algo: str, tmp_path: Path) -> dict[str, Any]:
    return convert(file, algo, ENVIRONMENTS[algo], tmp_path / "imported")


@pytest.mark.parametrize("algo", NETWORKS)
def test_an_imported_policy_acts_as_the_network_it_came_from(algo: str, tmp_path: Path) -> None:
    torch.manual_seed(4)
    network = NETWORKS[algo]()
    file = saved(tmp_path / f"{algo}.cleanrl_model", network.state_dict())
    told = converted(file, algo, tmp_path)
    loaded = loaded_from(Path(told["path"]))
    batch = np.random.default_rng(1).normal(size=(300, *loaded.manifest.spaces["observation"]["shape"]))
    chosen = loaded.policy.act(batch.astype(np.float32), deterministic=True, random=np.random.default_rng(0))
    with torch.no_grad():
        expected = network(torch.from_numpy(batch).float()).numpy()
    if chosen.dtype.kind == "i":
        assert (chosen == expected).mean() > 0.99
    else:
        np.testing.assert_allclose(chosen, expected, atol=1e-4)
    lineage = loaded.manifest.lineage
    assert (lineage["kind"], lineage["file"], lineage["sha256"]) == ("import", file.name, file_hash(file))


@pytest.mark.parametrize(
    ("algo", "env_id", "kind"),
    [
        ("ppo_atari", "PongNoFrameskip-v4", theirs.AtariAgent),
        ("ppg_procgen", "starpilot", theirs.ProcgenAgent),
    ],
)
def test_networks_that_look_at_pictures_act_the_same_too(
    algo: str, env_id: str, kind: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(6)
    network = kind()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)  # a new network hardly distinguishes pictures
    told = convert(saved(tmp_path / "file.pt", network.state_dict()), algo, env_id, tmp_path / "imported")
    assert told["lineage"]["fresh"] == []
    loaded = loaded_from(Path(told["path"]))
    shape = loaded.manifest.spaces["observation"]["shape"]
    coarse = np.random.default_rng(1).choice([0, 255], size=(60, shape[0], 4, 4)).astype(np.uint8)
    pictures = coarse.repeat(shape[1] // 4, axis=2).repeat(shape[2] // 4, axis=3)
    chosen = loaded.policy.act(pictures, deterministic=True, random=np.random.default_rng(0))
    with torch.no_grad():
        expected = network(torch.from_numpy(pictures).float()).numpy()
    assert len(set(expected.tolist())) > 1, "a network that always says the same tests nothing"
    assert (chosen == expected).mean() > 0.95


def test_a_c51_file_brings_the_range_of_its_atoms(tmp_path: Path) -> None:
    network = theirs.C51Network(atoms=21, low=-5.0, high=30.0)
    wrapped = {"model_weights": network.state_dict(), "args": {"env_id": "CartPole-v1", "n_atoms": 21, "cuda": True}}
    loaded = loaded_from(Path(converted(saved(tmp_path / "c51.pt", wrapped), "c51", tmp_path)["path"]))
    assert (loaded.args.n_atoms, loaded.args.v_min, loaded.args.v_max) == (21, -5.0, 30.0)


@pytest.mark.parametrize("algo", ["td3_continuous_action", "sac_continuous_action"])
def test_both_critics_of_a_file_become_one_module(algo: str, tmp_path: Path) -> None:
    torch.manual_seed(2)
    actor, first, second = NETWORKS[algo](), theirs.Critic(), theirs.Critic()
    parts = tuple(one.state_dict() for one in (actor, first, second))
    told = converted(saved(tmp_path / "file.cleanrl_model", parts), algo, tmp_path)
    assert told["lineage"]["fresh"] == []
    critics, rows = TwinCritics(4), torch.randn(50, 4)
    tensors = checkpoints.load(Path(told["path"])).tensors
    for name in ("critics", "target_critics"):
        critics.load_state_dict({key: tensors[f"{name}.{key}"] for key in critics.state_dict()})
        with torch.no_grad():
            expected = torch.cat((first(rows), second(rows)), dim=1).T
            torch.testing.assert_close(critics(rows), expected)


def test_a_file_with_the_actor_alone_says_what_is_missing_and_warm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = saved(tmp_path / "sac.pt", theirs.SacActor().state_dict())
    told = converted(file, "sac_continuous_action", tmp_path)
    assert told["lineage"]["fresh"] == ["critics", "target_critics"]
    flags = ("--env-id", "Pendulum-v1", "--total-timesteps", "1", "--warm-start", told["path"])
    assert run_main(sac_continuous_action, monkeypatch, tmp_path / "run", *flags) == 0
    assert torch.equal(
        newest_tensors(tmp_path / "run")["actor.fc1.weight"],
        checkpoints.load(Path(told["path"])).tensors["actor.fc1.weight"],
    )


def test_a_policy_without_its_statistics_says_so(tmp_path: Path) -> None:
    file = saved(tmp_path / "agent.pt", theirs.ContinuousPpoAgent().state_dict())
    told = converted(file, "ppo_continuous_action", tmp_path)
    assert "no statistics of observations" in told["lineage"]["notes"][0]


def test_an_import_warm_starts_a_run_and_cannot_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = converted(saved(tmp_path / "dqn.pt", theirs.DqnNetwork().state_dict()), "dqn", tmp_path)["path"]
    flags = ("--env-id", "CartPole-v1", "--total-timesteps", "10")
    assert run_main(dqn, monkeypatch, tmp_path / "warm", *flags, "--warm-start", path) == 0
    capsys.readouterr()
    assert run_main(dqn, monkeypatch, tmp_path / "resumed", *flags, "--resume", path) == 2
    said = capsys.readouterr().err
    assert "it can warm-start a run, not resume one" in said
    assert said.count("\n") == 1


def test_safetensors_and_names_of_this_worker_are_read_as_well(tmp_path: Path) -> None:
    names = {f"agent.{name}": tensor for name, tensor in theirs.PpoAgent().state_dict().items()}
    save_file(names, tmp_path / "model.safetensors")
    told = converted(tmp_path / "model.safetensors", "ppo", tmp_path)
    assert told["lineage"]["fresh"] == []


# ---- what is refused ---------------------------------------------------------------------------------------------


def refused(file: Path, algo: str, tmp_path: Path, env_id: str | None = None) -> str:
    with pytest.raises(UsageError) as error:
        convert(file, algo, env_id or ENVIRONMENTS[algo], tmp_path / "imported")
    assert not list(tmp_path.glob("imported/*")), "something was written all the same"
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_pickle_that_needs_more_than_tensors_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    file = saved(tmp_path / "whole.pt", theirs.PpoAgent())
    said = refused(file, "ppo", tmp_path)
    assert f"{file} is refused: reading it would run code that it names" in said
    assert "cleanrl_networks.PpoAgent" in said
    assert "torch.save(model.state_dict(), FILE)" in said


def test_a_pickle_that_would_run_a_program_does_not(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "sprung",))

    file = saved(tmp_path / "trap.pt", {"actor.0.weight": Trap()})
    assert "is refused" in refused(file, "ppo", tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_shapes_that_differ_are_shown_side_by_side(tmp_path: Path) -> None:
    file = saved(tmp_path / "ppo.pt", theirs.PpoAgent().state_dict())
    said = refused(file, "ppo", tmp_path, "Acrobot-v1")
    assert "does not fit ppo on Acrobot-v1" in said
    assert "agent.actor.0.weight is [64, 4] in the file and [64, 6] here" in said


def test_a_file_of_another_algorithm_is_refused_with_the_names(tmp_path: Path) -> None:
    said = refused(saved(tmp_path / "ppo.pt", theirs.PpoAgent().state_dict()), "dqn", tmp_path)
    assert "critic.0.weight is not known here" in said
    assert "and 18 more" in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"epoch": 3}, "holds no tensors"),
        ({"actor.0.weight": torch.tensor([float("nan")])}, "no numbers (NaN or infinity), the first in actor.0.weight"),
    ],
)
def test_a_file_without_usable_tensors_is_refused(content: Any, words: str, tmp_path: Path) -> None:
    assert words in refused(saved(tmp_path / "file.pt", content), "ppo", tmp_path)


@pytest.mark.parametrize("name", ["file.pt", "file.safetensors"])
def test_a_file_that_is_something_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"#!/bin/sh\necho hello\n")
    assert f"{name} is " in refused(tmp_path / name, "ppo", tmp_path)
    assert "there is no file" in refused(tmp_path / "absent.pt", "ppo", tmp_path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path / "ppo.pt", theirs.PpoAgent().state_dict())
    file.write_bytes(file.read_bytes()[:2000])
    assert "is damaged" in refused(file, "ppo", tmp_path)


def test_the_process_refuses_in_one_sentence(tmp_path: Path) -> None:
    file = saved(tmp_path / "whole.pt", theirs.PpoAgent())
    words = [str(file), "--algo", "ppo", "--env-id", "CartPole-v1", "--destination", str(tmp_path / "imported")]
    command = [sys.executable, "-m", "cleanrl_worker.import_checkpoint", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is refused" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


# ---- what was made to harm ---------------------------------------------------------------------------------------


CASES = [(name, "file.pt", *case) for name, case in HOSTILE_PICKLES.items()]
CASES += [(f"safetensors, {name}", "file.safetensors", *case) for name, case in HOSTILE_SAFETENSORS.items()]


@pytest.mark.parametrize(("name", "make", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.filterwarnings("ignore")  # PyTorch's, of kinds of tensors that will not stay
def test_a_hostile_file_is_refused_in_a_sentence_with_little_memory(
    name: str, make: Maker, words: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = refused(tmp_path / name, "ppo", tmp_path)
    assert said.startswith(str(tmp_path / name))
    assert words in said
    assert "Error" not in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "kB more than before"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "it is a named pipe"),
        (Path.mkdir, "it is a folder"),
        (lambda at: at.symlink_to("/dev/zero"), "a device"),
    ],
    ids=["pipe", "folder", "device"],
)
def test_what_is_no_regular_file_is_refused_at_once(make: Maker, words: str, tmp_path: Path) -> None:
    make(tmp_path / "file.pt")
    assert words in refused(tmp_path / "file.pt", "ppo", tmp_path)


def test_a_file_larger_than_any_policy_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "file.pt").open("wb") as stream:
        stream.truncate(10**13)  # of holes
    assert "it is larger than 1024 MiB" in refused(tmp_path / "file.pt", "ppo", tmp_path)


@pytest.mark.parametrize("atoms", [10**9, -1, True, 10**400, "many"])
def test_a_file_that_claims_impossible_settings_does_not_build_networks_of_them(atoms: Any, tmp_path: Path) -> None:
    content = {"model_weights": theirs.C51Network(atoms=21).state_dict(), "args": {"n_atoms": atoms}}
    content["model_weights"].pop("atoms", None)
    said = refused(saved(tmp_path / "c51.pt", content), "c51", tmp_path)
    assert "atoms" in said or "does not fit" in said


def test_names_out_of_a_file_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    for name, tensor in ((f"a{OSC_52}b", torch.zeros(2)), (f"a{OSC_52}b", torch.tensor([float("nan")]))):
        said = refused(saved(tmp_path / "file.pt", {name: tensor}), "ppo", tmp_path)
        assert said.isprintable()
        assert "a ]52;c;ZXZpbA== b" in said


def test_the_process_ends_by_itself_when_a_file_asks_for_all_memory(tmp_path: Path) -> None:
    """The second line: a limit that holds whatever the first one did not think of."""
    words = "import sys, pathlib; from mosaic_worker.state.foreign_files import limit_memory"
    words += "; limit_memory(pathlib.Path(sys.argv[1])); bytearray(8 * 2**30)"
    command = [sys.executable, "-c", words, str(tmp_path / "absent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.splitlines()[-1] == "MemoryError"
