"""What a screen says of a recorded episode: who acted, what a step saw and did, which episodes match."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_gui.services import recorded_steps
from gym_gui.services.replay import names
from gym_gui.services.replay.episode_list import ListedEpisode, filtered, listed
from gym_gui.services.replay.episode_record import EpisodeRecord, Stripe, choices, stripes
from gym_gui.services.replay.recorded_evaluations import recorded_evaluations
from gym_gui.services.replay.take_over import TakeOverError, game_settings, policy_at, taken_over
from gym_gui.services.worker_tools import ToolRefusedError
from mosaic_protocol.events import StepChunk
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import EVALUATION, RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder

ABOUT: dict[str, Any] = {"kind": RUN, "worker": "play", "env_id": "CartPole-v1", "run_id": "01K9ZQ3V7X0000000000000000"}
ABOUT |= {"run_name": "poles", "settings": {"params": {"actor": "human", "speed": 0, "gravity": 3.0}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two episodes: policy, person, policy; and one of the person alone that did not end."""
    recording = Recording.new(tmp_path / "recording", ABOUT)
    with closing(StepRecorder(recording.folder)) as recorder:
        lane = recorder.lane()
        for seed, actors in ((42, "ppphhp"), (43, "hh")):
            lane.begin_episode(seed)
            for number, who in enumerate(actors):
                last = seed == 42 and number == len(actors) - 1
                seen = np.array([number, -number, 0.5, 0.0], np.float32)
                extras: dict[str, Any] = {"action_values": [1.0, 3.0], "why": "tried"} if number == 1 else {}
                extras |= {"advised": 1} if number == 2 else {}
                how: dict[str, Any] = {"actor": {"p": "policy", "h": "human"}[who], "extras": extras or None}
                how |= {"final_observation": seen} if last else {}
                lane.append(seen, number % 2, float(number), last, False, value=float(number), **how)
    return recording.folder


def record_of(folder: Path, number: int = 0) -> EpisodeRecord:
    return EpisodeRecord(next(iter(read_episodes(Recording.at(folder).chunks(number), number))), "CartPole-v1")


def test_a_step_is_told_in_words_and_numbers(folder: Path) -> None:
    record = record_of(folder)
    assert record.stripes == [Stripe("policy", 0, 3), Stripe("human", 3, 5), Stripe("policy", 5, 6)]
    assert (record.total, record.hand_overs) == (15.0, [3, 5])
    assert [record.next_hand_over(place) for place in (0, 3, 5)] == [3, 5, 6]
    assert [record.previous_hand_over(place) for place in (6, 5, 3, 1)] == [5, 3, 0, 0]
    step = record.step(1)
    assert (step.action, step.action_detail, step.actor) == ("push right", "action 1", "policy")
    assert (step.reward, step.total, step.to_go, step.value) == (1.0, 1.0, 15.0, 1.0)
    assert [(one.name, one.share, one.is_taken) for one in step.choices] == [
        ("push left", 0.0, False),
        ("push right", 1.0, True),
    ]
    assert step.extras == {"why": "tried"}
    first, second = step.readings[:2]
    assert (first.name, first.value, first.before, first.low, first.high) == ("cart position", 1.0, 0.0, 0.0, 5.0)
    assert (second.low, second.high) == (-5.0, 0.0)
    assert record.step(2).advised == "push right" and not record.step(3).advised
    assert record.step(5).terminated and record.picture(0) is None
    with pytest.raises(IndexError):
        record.step(6)


def test_an_observation_that_is_a_picture_is_one(tmp_path: Path) -> None:
    recording = Recording.new(tmp_path, ABOUT)
    with closing(StepRecorder(recording.folder)) as recorder:
        lane = recorder.lane(actor="policy")
        lane.begin_episode(1)
        lane.append(np.full((20, 30), 7, np.uint8), 0, 1.0, True, False)
    record = record_of(recording.folder)
    picture = record.picture(0)
    assert picture is not None and picture.shape == (20, 30, 3) and picture.max() == 7
    assert (record.step(0).readings, record.step(0).form) == ([], "uint8 20 × 30")


def test_episodes_are_listed_filtered_and_ordered(folder: Path) -> None:
    episodes = list(listed(Recording.at(folder).chunks()))
    assert [(one.number, one.seed, one.steps, one.total, one.outcome) for one in episodes] == [
        (0, 42, 6, 15.0, "terminated"),
        (1, 43, 2, 1.0, ""),
    ]
    assert episodes[0].share_of("human") == pytest.approx(1 / 3)

    def found(words: str, order: str = "newest") -> list[int]:
        return [one.number for one in filtered(episodes, words, "CartPole-v1", order)]

    assert found("") == [1, 0] and found("", "oldest") == [0, 1] and found("", "best") == [0, 1]
    assert found("42") == [0] and found("1") == [1] and found("cartpole policy") == [0]
    assert found("you") == [1, 0] and found("not ended") == [1] and found("terminated") == [0] and found("x") == []
    assert found("", "longest") == [0, 1]


def test_actions_and_observations_have_names_where_somebody_gave_them() -> None:
    assert names.action_name("CartPole-v1", 1) == "push right" and names.action_name("Strange-v0", 1) == ""
    assert names.action_name("ALE/Pong-v5", 2, ("noop", "fire", "up")) == "up"
    assert names.action_names("Strange-v0", 2) == ["0", "1"]
    assert names.observation_names("package:CartPole-v1", (), 4)[2] == "pole angle"
    assert names.observation_names("CartPole-v1", (), 3) == ["[0]", "[1]", "[2]"]
    assert names.observation_names("Any-v0", ("where", 1), 2) == ["where/1[0]", "where/1[1]"]
    assert names.action_part_names("Pendulum-v1", 1) == ["torque"] and names.action_part_names("X-v0", 2) == [
        "[0]",
        "[1]",
    ]


def test_bars_of_probabilities_are_as_they_are_and_of_values_from_least_to_greatest() -> None:
    called = ["left", "right"]
    assert [one.share for one in choices([0.25, 0.75], "probability", 1, called)] == [0.25, 0.75]
    assert [one.share for one in choices([-4.0, 6.0], "value", None, called)] == [0.0, 1.0]
    assert [one.share for one in choices([2.0, 2.0], "value", 0, called)] == [1.0, 1.0]
    assert stripes([]) == []


def test_whoever_takes_over_gets_the_game_and_not_the_seat(folder: Path, tmp_path: Path) -> None:
    assert game_settings(ABOUT) == {"gravity": 3.0}
    assert game_settings({**ABOUT, "worker": "mine", "settings": {"params": {"env_kwargs": {"g": 1}, "x": 2}}}) == {
        "env_kwargs": {"g": 1}
    }
    learned = {"worker": "spade_bdi_rl_worker", "settings": {"params": {"is_slippery": False, "map_name": None}}}
    assert game_settings({**ABOUT, **learned}) == {"env_kwargs": {"is_slippery": False}}
    assert game_settings({"kind": EVALUATION, "settings": {"params": {"gravity": 1}}}) == {}
    paths, source = MosaicPaths(tmp_path / "home"), recorded_steps.of_folder(folder)
    wish = taken_over(source, paths, 0, 3, "policy", "somewhere")
    assert (wish.env_id, wish.actor, wish.checkpoint, wish.name) == (
        "CartPole-v1",
        "policy",
        "somewhere",
        "poles-taken-over",
    )
    assert wish.params == {"gravity": 3.0, "from_recording": str(folder), "from_episode": 0, "from_step": 3}
    with pytest.raises(TakeOverError, match="no recorded episode 9"):
        taken_over(source, paths, 9, 0)


def test_of_a_run_a_copy_of_the_episode_is_kept(folder: Path, tmp_path: Path) -> None:
    paths, own = MosaicPaths(tmp_path / "home"), recorded_steps.of_folder(folder)
    source = recorded_steps.StepSource(own.name, own.about, own.chunks)
    for _ in range(2):  # the second time it is written again
        kept = Path(taken_over(source, paths, 1, 1).params["from_recording"])
        assert kept.parent == paths.training / "beginnings"
        assert json.loads((kept / "recording.json").read_text())["run_name"] == "poles"
        (episode,) = read_episodes(Recording.at(kept).chunks(1), 1)
        assert (len(episode), episode.seed) == (2, 43)


_TAKES_OVER = """
import sys
from pathlib import Path

from gym_gui.services import recorded_steps
from gym_gui.services.replay.take_over import taken_over
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording

own = recorded_steps.of_folder(Path(sys.argv[1]))
source = recorded_steps.StepSource(own.name, own.about, own.chunks)
for _ in range(100):
    kept = Path(taken_over(source, MosaicPaths(Path(sys.argv[2])), 1, 1).params["from_recording"])
    (episode,) = read_episodes(Recording.at(kept).chunks(1), 1)
    assert len(episode) == 2, len(episode)
"""


def test_several_take_over_the_same_episode_at_once(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TAKES_OVER, str(folder), str(tmp_path / "home")]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [one.communicate(timeout=60)[1] for one in started] == ["", "", ""]
    assert len(list(MosaicPaths(tmp_path / "home").beginnings.iterdir())) == 1, "one copy, and no draft"


def test_a_copy_that_cannot_be_made_leaves_the_one_that_a_session_reads(folder: Path, tmp_path: Path) -> None:
    paths, own = MosaicPaths(tmp_path / "home"), recorded_steps.of_folder(folder)
    kept = Path(
        taken_over(recorded_steps.StepSource(own.name, own.about, own.chunks), paths, 1, 1).params["from_recording"]
    )

    def on_a_full_disk(episode: int | None) -> Iterator[StepChunk]:
        yield from own.chunks(episode)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(TakeOverError, match=r"episode 1 cannot be copied to .*: No space left on device"):
        taken_over(recorded_steps.StepSource(own.name, own.about, on_a_full_disk), paths, 1, 1)
    assert list(paths.beginnings.iterdir()) == [kept]
    assert [len(one) for one in read_episodes(Recording.at(kept).chunks(1), 1)] == [2]


def test_a_full_disk_hands_no_steps_to_a_replay(folder: Path) -> None:
    own = recorded_steps.of_folder(folder)

    def on_a_full_disk(episode: int | None) -> Iterator[StepChunk]:
        yield from own.chunks(episode)
        raise OSError(errno.ENOSPC, "No space left on device")

    source = recorded_steps.StepSource(own.name, own.about, on_a_full_disk)
    said = r"cannot be handed to the replay: No space left on device in .*; TMPDIR names another folder"
    with pytest.raises(ToolRefusedError, match=said), source.as_folder(1):
        raise AssertionError("there is none")


def test_the_policy_of_then_is_at_hand(tmp_path: Path) -> None:
    there = str(tmp_path)
    extras = {0: {"checkpoint": "/nowhere"}, 4: {"checkpoint": there}, 9: {"checkpoint": "/later"}}
    assert policy_at({}, extras, 5) == there and policy_at({}, extras, 2) == "" and policy_at({}, {}, 2) == ""
    assert policy_at({"checkpoint": {"path": there}}, {}, 2) == there


def test_a_listed_episode_of_a_long_run_has_no_stripes() -> None:
    assert ListedEpisode(1, 2, 0, 0.0, "").share_of("human") == 0.0


def test_evaluations_are_listed_by_results_that_lie_beside_them(folder: Path, tmp_path: Path) -> None:
    evaluations = RunPaths(tmp_path / "run").evaluations
    for name in ("step-9--20260101T000000Z-a-recorded", "step-1000--20260102T000000Z-b-recorded"):
        shutil.copytree(folder, evaluations / name / "sampled")

    def write(name: str, recorded: str, **changes: object) -> None:
        told = {"step": 9, "recordings": {"sampled": recorded}, "results": {"sampled": {"episodes": 2, "mean": 1.5}}}
        (evaluations / name).write_text(json.dumps(told | changes))

    assert recorded_evaluations(tmp_path / "run") == [], "a folder without a result is of one that was killed"
    write("step-9--20260101T000001Z-a.json", "/moved/since/step-9--20260101T000000Z-a-recorded/sampled")
    write("step-1000--20260102T000001Z-b.json", "step-1000--20260102T000000Z-b-recorded/sampled", step=1000)
    write("out.json", "../../../etc/..")
    write("gone.json", "step-7-recorded/sampled")
    write("none.json", "", recordings=[], results=3)
    (evaluations / "torn.json").write_text('{"step": 3, "recor')
    found = recorded_evaluations(tmp_path / "run")
    assert [(one.step, one.mode, one.episodes, one.mean) for one in found] == [
        (1000, "sampled", 2, 1.5),
        (9, "sampled", 2, 1.5),
    ]
    assert found[1].folder == evaluations / "step-9--20260101T000000Z-a-recorded" / "sampled"
