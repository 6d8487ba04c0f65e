"""``mosaic replay`` and ``mosaic datasets``, on runs of a worker that records and on a recorded evaluation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import av
import h5py
import msgspec
import numpy as np
import pytest

from cleanrl_worker.tests.policy_tools import new_checkpoint
from gym_gui.cli.commands.replay import tell_step, what_was_compared
from gym_gui.services.datasets import DatasetRegistry
from gym_gui.tests.cli.test_cli_completion import offered
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess
from gym_gui.tests.support.made_checkpoints import RUN_B, write_run
from gym_gui.tests.support.player_worker import player_worker
from mosaic_protocol.dialogue import DIALOGUE, Exchange, Message, exchange_at, in_full, recorded
from mosaic_protocol.paths import MosaicPaths

pytestmark = pytest.mark.usefixtures("workers_train")


def config(name: str, env_id: str, steps: int, **params: Any) -> dict[str, Any]:
    settings = {"algo": "play", "env_id": env_id, "seed": 7, "total_timesteps": steps, "params": params}
    worker = {"type": "player", "module": "player_worker.cli", "config": settings}
    cpus = {"cpus": {"requested": 1}}
    return {"run_name": name, "resources": cpus, "artifacts": {}, "metadata": {"worker": worker}}


@pytest.fixture
def mosaic(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> CommandLine:
    """Runs of a worker that records: of CartPole, of a lake with settings, one without seeds, one without steps."""
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = f"{WORKERS}:{player_worker(tmp_path / 'workers')}"
    daemon.start()
    started = [
        daemon.client.submit(config("poles", "CartPole-v1", 150)),
        daemon.client.submit(config("lake", "FrozenLake-v1", 40, slippery=False)),
        daemon.client.submit(config("seedless", "CartPole-v1", 30, seedless=True)),
    ]
    for one in [one.run.run_id for one in started] + [daemon.submit(name="silent", total_timesteps=1)]:
        assert daemon.wait_over(one).outcome == "completed"
    return CommandLine(daemon.paths.root, daemon.env)


def refused(mosaic: CommandLine, *words: str, code: int = 2) -> str:
    answer = mosaic(*words)
    assert answer.code == code, answer
    (sentence,) = answer.err.splitlines()
    return sentence.removeprefix("mosaic: ")


def frames_in(file: Path) -> int:
    with av.open(str(file)) as container:
        return sum(1 for _ in container.decode(video=0))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((9, 9, 9, 9), []),
        ((9, 9, 0, 9), ["Observations were not recorded: rewards and ends were compared."]),
        ((9, 9, 2, 9), ["Observations were recorded of 2 of these steps, and compared; of others, rewards."]),
        ((9, 9, 9, 1), ["Rewards were recorded of 1 of these steps, and compared; of others, observations."]),
        ((9, 0, 0, 0), ["Neither was recorded of 9 steps: not verified."]),
    ],
)
def test_a_replay_says_what_it_could_not_compare(counts: tuple[int, ...], said: list[str]) -> None:
    result = dict(zip(("checked", "verified", "observations", "rewards"), counts, strict=True))
    assert what_was_compared(result) == said


def test_a_step_of_a_language_model_is_shown_with_its_whole_prompt_and_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompt = (Message("system", "Your actions: left, right."), Message("user", "Step 3.\nS@FF\x1b]0;owned\x07"))
    asked = Exchange(
        prompt, response="go \x9b31m left", validity="repaired", rung="tagged", tokens_in=1234, tokens_out=2
    )
    extras = {n: {DIALOGUE: msgspec.to_builtins(one)} for n, one in enumerate(_recorded([asked, asked]))}
    found = exchange_at(1, extras)
    assert found is not None and exchange_at(2, extras) is None
    step = {"place": 1, "info": {DIALOGUE: extras[1][DIALOGUE], "drawn": 1}}
    tell_step(step, in_full(found))
    out = capsys.readouterr().out
    assert "    Your actions: left, right.\n" in out and "    Step 3.\n    S@FF\\u001b" in out
    assert "{'drawn': 1}" in out and "repaired · tagged · 1,234 + 2 tokens · 0.00 s" in out
    assert not {one for one in out if not one.isprintable() and one != "\n"}


def _recorded(exchanges: list[Exchange]) -> list[Exchange]:
    known: set[str] = set()
    return [recorded(one, known) for one in exchanges]


def test_a_run_replays_verified_and_is_exported(mosaic: CommandLine, tmp_path: Path) -> None:
    episodes = [json.loads(line) for line in mosaic("episodes", "poles", "--json").out.splitlines()]
    length = episodes[1]["length"]
    answer = mosaic("replay", "poles", "--episode", "1")
    assert (answer.code, answer.err) == (0, ""), answer
    assert f"verified {length}/{length} steps" in answer.out and f"(human {length})" in answer.out
    assert "episode 1 of CartPole-v1, seed 8" in answer.out
    for ending in ("mp4", "gif"):
        file = tmp_path / f"film.{ending}"
        result = mosaic("replay", "poles", "--episode", "1", "--export", str(file), "--json").json
        assert (result["verified"], result["frames"]) == (length, length + 1) and frames_in(file) == length + 1
    shown = mosaic("replay", "poles", "--episode", "0", "--step", "0", "--json").json
    assert (shown["steps"], shown["verified"], shown["step"]["value"]) == (1, 1, 0.5)
    assert shown["step"]["info"] == {"drawn": [1, 2]} and shown["step"]["actor"] == "policy"
    assert "verified 1/1 steps (the first of" in mosaic("replay", "poles", "--episode", "0", "--step", "0").out


def test_the_settings_of_the_run_make_its_environment(mosaic: CommandLine) -> None:
    result = mosaic("replay", "lake", "--episode", "0", "--json").json
    assert result["verified"] == result["steps"] > 0


def test_mistakes_are_said_on_one_line(mosaic: CommandLine, tmp_path: Path) -> None:
    assert "(silent) has no recorded steps" in refused(mosaic, "replay", "silent", "--episode", "0")
    assert "(poles) has no recorded episode 999" in refused(mosaic, "replay", "poles", "--episode", "999")
    assert "recorded without a seed" in refused(mosaic, "replay", "seedless", "--episode", "0")
    assert "has the steps 0 to" in refused(mosaic, "replay", "poles", "--episode", "0", "--step", "9999")
    assert "--export must end in .mp4 or .gif" in refused(
        mosaic, "replay", "poles", "--episode", "0", "--export", "film.avi"
    )
    there = tmp_path / "there.mp4"
    there.touch()
    export = ("replay", "poles", "--episode", "0", "--export")
    assert "is there already" in refused(mosaic, *export, str(there)) and not there.stat().st_size
    assert "there is no folder" in refused(mosaic, *export, str(tmp_path / "no" / "film.mp4"))
    assert not (tmp_path / "no").exists()
    assert mosaic(*export, str(there), "--force").code == 0 and there.stat().st_size
    assert "no run is called 'nobody'" in refused(mosaic, "replay", "nobody", "--episode", "0", code=3)
    assert "--env-id is missing" in refused(mosaic, "play")
    assert "not both" in refused(mosaic, "play", "--env-id", "CartPole-v1", "--from-run", "poles")
    assert "has no recorded episode 999" in refused(mosaic, "play", "--from-run", "poles", "--episode", "999")
    assert "this needs a terminal" in refused(mosaic, "play", "--from-run", "poles", "--step", "3")
    assert "takes the number of an episode" in refused(
        mosaic, "datasets", "from-run", "poles", "one", "--only", "episode=x"
    )
    mosaic.environment["MOSAIC_WORKER_PATH"] = str(WORKERS)
    assert "'player', which is not installed here" in refused(mosaic, "replay", "poles", "--episode", "0")


def test_a_dataset_holds_the_whole_episodes_and_minari_reads_it(mosaic: CommandLine, tmp_path: Path) -> None:
    import minari

    episodes = [json.loads(line) for line in mosaic("episodes", "poles", "--json").out.splitlines()]
    answer = mosaic("datasets", "from-run", "poles", "poles")
    assert answer.code == 0, answer
    assert f"poles: {len(episodes)} episodes" in answer.out and "Left out: 1 episode (not ended)." in answer.out
    assert "one: 1 episode," in mosaic("datasets", "from-run", "poles", "one", "--only", "episode=1").out
    told = mosaic("datasets", "show", "poles", "--json").json
    assert (told["damaged"], told["env_id"], told["observation_space_from"]) == (None, "CartPole-v1", "environment")
    assert told["source"]["run_name"] == "poles" and told["source"]["settings"]["seed"] == 7
    assert sum(told["actors"].values()) == told["steps"] == sum(one["length"] for one in episodes)
    mosaic.environment["MINARI_DATASETS_PATH"] = str(tmp_path / "minari")
    assert "reads it" in mosaic("datasets", "export", "poles", "--minari", "mosaic/poles-v0").out

    steps = [json.loads(line) for line in mosaic("steps", "poles", "--json").out.splitlines()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
        loaded = minari.load_dataset("mosaic/poles-v0")
        assert list(minari.list_local_datasets()) == ["mosaic/poles-v0"]
        assert "mosaic" in minari.namespace.list_local_namespaces()
    assert (loaded.total_episodes, loaded.total_steps) == (len(episodes), told["steps"])
    assert loaded.env_spec is not None and loaded.env_spec.id == "CartPole-v1"
    with loaded.recover_environment() as env:
        assert env.observation_space == loaded.observation_space and env.action_space == loaded.action_space
    metadata = list(loaded.storage.get_episode_metadata(range(2)))
    assert [one["seed"] for one in metadata] == [7, 8]
    for number, found in enumerate(loaded.iterate_episodes()):
        ours = [step for step in steps if step["episode"] == number]
        assert len(found.observations) == len(found.actions) + 1 == len(ours) + 1
        assert found.observations[:-1].tolist() == [step["observation"] for step in ours]
        assert found.observations[-1].tolist() == ours[-1]["final_observation"]
        assert found.actions.tolist() == [step["action"] for step in ours]
        assert found.rewards.tolist() == [step["reward"] for step in ours]
        assert found.terminations[-1] or found.truncations[-1]
        assert {name.decode() for name in found.infos["actor"]} == {"human" if number % 2 else "policy"}
        assert loaded.observation_space.contains(found.observations[0])


def test_only_one_actors_episodes_can_be_taken(mosaic: CommandLine) -> None:
    answer = mosaic("datasets", "from-run", "poles", "hands", "--only", "actor=human")
    assert answer.code == 0, answer
    told = mosaic("datasets", "show", "hands", "--json").json
    assert list(told["actors"]) == ["human"] and told["only"] == "actor=human"
    assert told["left_out"]["not actor=human in every step"] >= 1
    listed = mosaic("datasets").out
    assert "hands" in listed and "CartPole-v1" in listed
    assert mosaic("datasets", "list", "--json").json["datasets"][0]["name"] == "hands"
    assert "left out" in mosaic("datasets", "show", "hands").out
    assert mosaic("datasets", "from-run", "poles", "seats", "--only", "agent=seat").code == 0


def test_what_cannot_become_a_dataset_is_said_on_one_line(mosaic: CommandLine, tmp_path: Path) -> None:
    assert mosaic("datasets", "from-run", "lake", "lake").code == 0
    for words, sentence in (
        (("from-run", "lake", "lake"), "there is a dataset 'lake' already"),
        (("from-run", "lake", "Not A Name"), "'Not A Name' is not a plain name"),
        (("from-run", "silent", "silence"), "has no episode for a dataset (no steps were recorded)"),
        (("from-run", "lake", "cats", "--only", "actor=cat"), "left out: not actor=cat in every step"),
        (("from-run", "lake", "cats", "--only", "mood=good"), "--only takes actor=NAME or agent=NAME"),
        (("export", "lake", "--minari", "no version"), "--minari takes NAMESPACE/NAME-vN"),
    ):
        assert sentence in refused(mosaic, "datasets", *words)
    assert "did you mean 'lake'" in refused(mosaic, "datasets", "show", "lak", code=3)
    folder = Path(mosaic.environment["MOSAIC_HOME"]) / "training" / "datasets"
    assert [path.name for path in folder.iterdir()] == ["lake"]
    data = folder / "lake" / "data.hdf5"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    answer = mosaic("datasets", "show", "lake")
    assert answer.code == 1 and "was changed since it was written" in answer.out
    mosaic.environment["MINARI_DATASETS_PATH"] = str(tmp_path / "minari")
    assert "is damaged and not exported" in refused(mosaic, "datasets", "export", "lake", "--minari", "a/b-v0")
    (folder / "lake" / "manifest.json").write_text("[]")
    assert "describes no dataset" in mosaic("datasets").out
    assert "cannot be used: manifest.json describes no dataset" in refused(mosaic, "datasets", "show", "lake")


# ---- evaluations, without a daemon -----------------------------------------------------------------------------------


def test_a_recorded_evaluation_replays_and_becomes_a_dataset(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path / "home")
    write_run(paths, RUN_B, "actor")
    new_checkpoint(paths.run(RUN_B).checkpoints, "dqn")
    mosaic = CommandLine(paths.root)
    result = mosaic("eval", "actor", "--episodes", "3", "--seed", "5", "--record", "--json").json
    assert list(result["recordings"]) == ["deterministic", "sampled"]
    for mode, folder in result["recordings"].items():
        assert Path(folder).parent.parent == paths.run(RUN_B).evaluations
        episodes = [json.loads(line) for line in mosaic("episodes", folder, "--json").out.splitlines()]
        assert [one["total_reward"] for one in episodes] == result["results"][mode]["returns"]
        replayed = mosaic("replay", folder, "--episode", "2", "--json").json
        assert (replayed["verified"], replayed["difference"]) == (result["results"][mode]["lengths"][2], None)
    folder = result["recordings"]["sampled"]
    steps = [json.loads(line) for line in mosaic("steps", folder, "--episode", "0", "--json").out.splitlines()]
    assert len(steps) == result["results"]["sampled"]["lengths"][0] and {step["actor"] for step in steps} == {"policy"}
    assert steps[0]["value"] == pytest.approx(max(steps[0]["info"]["action_values"]))
    assert len(mosaic("steps", folder).out.splitlines()) == 20
    assert mosaic("datasets", "from-run", folder, "dqn").code == 0
    assert offered(mosaic, "mosaic datasets show d") == ["dqn"]
    entry = DatasetRegistry(paths).find("dqn")
    assert entry.manifest.source["checkpoint"]["sha256"] == result["sha256"] and not entry.integrity()
    with h5py.File(entry.data) as file:
        group = file["episode_0"]
        assert np.array(group["infos/value"]).shape == np.array(group["rewards"]).shape
        assert json.loads(group["infos/extras"][0])["action_values"]
    assert "has no recorded episode 9" in refused(mosaic, "steps", folder, "--episode", "9")
    assert "has no recorded episode 9" in refused(mosaic, "replay", folder, "--episode", "9")
    with mock.patch.dict(sys.modules, {"h5py": None}):
        told = refused(mosaic, "datasets", "from-run", folder, "again")
    assert "h5py, which is not installed: `python -m mosaic_worker.extras --set datasets` does that" in told
    assert "choose one of --record and --jobs" in refused(mosaic, "eval", "actor", "--record", "--jobs", "2")
    assert not paths.socket.exists(), "a daemon was started"
