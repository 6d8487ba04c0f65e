"""What a look inside a dataset finds, what is said of it, and how an offline run stands against others. No Qt."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from corl_worker.tests.worlds import play_set
from gym_gui.services.datasets.inside import Inside, Range
from gym_gui.services.datasets.looking import histogram, look_inside
from gym_gui.services.datasets.words import provenance, why_not_usable
from gym_gui.services.offline_course import SCORE, Baseline, OfflineCourse, course_of, went_online
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.ui.datasets.wishes import words_of
from mosaic_protocol.datasets import DatasetRegistry, DatasetsError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb


def test_a_look_finds_returns_ranges_episodes_and_rows(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    play_set(paths, "poles", "CartPole-v1", episodes=4, longest=25)
    entry = DatasetRegistry(paths).find("poles")
    found = look_inside(entry, most_rows=5)
    assert sum(found.lengths.counts) == 4 and len(found.rows) == 5 and found.rows_left_out == 20
    assert [one.name for one in found.observations] == [f"observation {n}" for n in range(4)]
    assert found.observations[1].least is None, "a speed has no bound"
    assert (found.actions[0].least, found.actions[0].most) == (0.0, 1.0) and not found.actions[0].is_outside
    assert {one.why for one in found.samples} <= {"best", "median", "worst", "first"}
    assert Inside.from_json(json.loads(json.dumps(found.as_json()))) == found
    assert look_inside(entry, episode=2).episode == 2
    with pytest.raises(DatasetsError, match="there is no episode 9: poles has 0 to 3"):
        look_inside(entry, episode=9)


def test_values_that_are_all_alike_stand_in_one_bar_and_numbers_that_are_none_in_no_bar() -> None:
    assert histogram(np.array([3.0, 3.0, np.nan])).counts == [2]
    assert histogram(np.array([np.nan])).counts == [0]
    assert sum(histogram(np.arange(100.0)).counts) == 100


def test_a_column_out_of_bounds_is_marked() -> None:
    assert Range("action 0", -2.5, 2.0, -2.0, 2.0).is_outside
    assert not Range("action 0", -2.0, 2.0, -2.0, 2.0).is_outside
    assert not Range("speed", -9.0, 9.0, None, None).is_outside


def test_a_badge_decides_what_can_be_learned_from(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    play_set(paths, "swings", "Pendulum-v1", source={"kind": "split", "of": {"name": "all"}})
    entry = DatasetRegistry(paths).find("swings")
    assert "press Verify" in why_not_usable("swings", entry) and provenance(entry) == "split of all"
    assert entry.integrity() == ""
    assert why_not_usable("swings", DatasetRegistry(paths).find("swings")) == ""
    entry.data.unlink()
    assert "gone" in why_not_usable("swings", DatasetRegistry(paths).find("swings"))
    (entry.folder / "manifest.json").write_text("{")
    assert "corrupt" in why_not_usable("swings", DatasetRegistry(paths).find("swings"))
    assert "no dataset 'other'" in why_not_usable("other", None)


def test_the_command_line_tells_the_same(tmp_path: Path) -> None:
    play_set(MosaicPaths(tmp_path), "swings", "Pendulum-v1")
    line = CommandLine(tmp_path)
    told = line("datasets", "look", "swings", "--rows", "2")
    assert told.code == 0 and "observation 2" in told.out and "… and 58 steps" in told.out, told.err
    assert line("datasets", "look", "swings", "--json").json["name"] == "swings"
    assert "did you mean 'swings'?" in line("datasets", "look", "swing").err


def test_what_is_filled_in_becomes_a_command() -> None:
    assert words_of("import", {"file": "a.hdf5", "name": " mine ", "env_id": "Hopper-v5", "clip_actions": True}) == [
        *("import", "--env-id", "Hopper-v5", "--clip-actions", "--", "a.hdf5", "mine")
    ]
    assert words_of("from-run", {"run": "last", "name": "mine", "only": "actor=human", "buffer": False}) == [
        *("from-run", "--only", "actor=human", "--", "last", "mine")
    ]
    collected = {"checkpoints": "a@best, b=c@5", "mix": "random:0.5, b:0.5", "name": "-x", "steps": 10, "seed": 0}
    assert words_of("collect", collected) == [
        *("collect", "--from", "a@best", "--from", "b=c@5", "--mix", "random:0.5,b:0.5"),
        *("--steps", "10", "--seed", "0", "--", "-x"),
    ]
    assert words_of("download", {"address": "hopper-medium-v2", "name": "h", "sha256": "ab"})[1:3] == ["--sha256", "ab"]


def test_a_course_says_when_it_went_online_and_which_baseline_is_best() -> None:
    steps, values = np.array([0.0, 10, 20, 30]), np.array([1.0, 20, 40, 60])
    assert went_online(steps, np.array([0.0, 0, 1, 1])) == 10 and went_online(steps, np.zeros(4)) is None
    baselines = (Baseline("bc", (30.0, 34.0)), Baseline("iql", (50.0,)))
    course = OfflineCourse("mine", "mix", SCORE, steps, values, 20.0, baselines)
    assert course.sentence() == (
        "mine: score 60 now, 40 when it went online. The best offline baseline on mix is iql with 50."
    )
    panel = course.panel()
    assert [one.label for one in panel.series] == [
        "mine",
        "bc, offline (2 runs)",
        "iql, offline (1 run)",
        "goes online",
    ]
    assert list(panel.series[1].y) == [32.0, 32.0] and list(panel.series[-1].x) == [20.0, 20.0]
    alone = OfflineCourse("mine", "mix", SCORE, steps, values, None, ())
    assert "No other run" in alone.sentence() and len(alone.panel().series) == 1
    silent = OfflineCourse("mine", "mix", SCORE, np.array([]), np.array([]), None, ())
    assert "not judged" in silent.sentence() and silent.panel().series[0].label == "mine"


def test_a_baseline_of_corls_own_script_is_not_mixed_with_mosaics() -> None:
    def run(name: str, **settings: str) -> pb.Run:
        config = {"metadata": {"worker": {"config": settings}}}
        return pb.Run(run_id=name, dataset="mix", algo="iql", state="TERM", config_json=json.dumps(config))

    watched, others = run("a"), [run("b"), run("c", source="corl"), run("d", source="mosaic")]
    ends = {"a": 1.0, "b": 40.0, "c": 10.0, "d": 60.0}

    class Client:
        def runs(self, **_: object) -> SimpleNamespace:
            return SimpleNamespace(runs=[watched, *others])

        def metrics(self, run_id: str, *_: object, **__: object) -> list[SimpleNamespace]:
            return [SimpleNamespace(tag=SCORE, steps=[10], values=[ends[run_id]])]

    course = course_of(cast(TrainerClient, Client()), watched)
    assert {one.algo: one.values for one in course.baselines} == {"iql": (40.0, 60.0), "corl/iql": (10.0,)}
    (panel,) = course.sheet().panels
    assert panel.title == "normalised score", "the heading says the rest"
