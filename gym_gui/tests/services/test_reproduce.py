"""Reproducing a run: what is repeated, what is refused, what changed since, and when the result counts as the same."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from gym_gui.services.continuation import duplicated
from gym_gui.services.reproduce.again import CannotReproduceError, again, reproduced_run
from gym_gui.services.reproduce.then_and_now import changed_since
from gym_gui.services.reproduce.verdict import Kind, Noise, Points, depends_on_speed, judged, noise_of, verdict_of
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolRefusedError
from mosaic_protocol import events as ev
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.provenance import code_record, settings_hash, surroundings
from mosaic_protocol.worker_manifest import WorkerManifest, discover

RETURN = "charts/episodic_return"


def curve(*values: float) -> Points:
    return Points.of(range(0, 10 * len(values), 10), values)


def run_of(run_id: str = "01THEN", **more: Any) -> pb.Run:
    settings = {"algo": "ppo", "env_id": "A", "seed": 1, "params": {"gamma": 0.9}}
    metadata = {"worker": {"type": "cleanrl", "module": "m", "config": settings}, "tags": ["paper"], "sweep": "s"}
    config = {"run_name": "base", "metadata": {**metadata, "group": "g"}}
    told = {"name": "base", "state": "TERM", "outcome": "completed", "started_at": 1.0, "algo": "ppo", **more}
    return pb.Run(run_id=run_id, worker_type=told.pop("worker_type", "cleanrl"), config_json=json.dumps(config), **told)


@pytest.fixture(scope="module")
def manifest() -> WorkerManifest:
    return discover().workers["cleanrl"]


# ---- the verdict -------------------------------------------------------------------------------------------------


def test_equal_curves_are_the_same_whatever_the_clock_says() -> None:
    then = {RETURN: curve(1.0, math.nan, 3.0), "charts/SPS": curve(100.0), "system/cpu_seconds": curve(1.0)}
    now = {RETURN: curve(1.0, math.nan, 3.0), "charts/SPS": curve(900.0, 1.0), "system/cpu_seconds": curve(7.0)}
    found = judged(then, now)
    assert (found.kind, found.points, found.first) == (Kind.SAME, 3, None)
    assert found.left_out == ["charts/SPS", "system/cpu_seconds"]


def test_the_last_bit_counts() -> None:
    found = judged({RETURN: curve(1.0, 2.0)}, {RETURN: curve(1.0, math.nextafter(2.0, 3.0))})
    assert found.kind == Kind.NOISE and "rounding" in found.sentence
    assert found.first is not None and (found.first.step, found.first.index) == (10, 1)


def test_the_first_difference_is_the_earliest_of_all_metrics() -> None:
    then = {RETURN: curve(1.0, 2.0, 3.0), "losses/a": curve(5.0, 6.0, 7.0)}
    now = {RETURN: curve(1.0, 2.0, 9.0), "losses/a": curve(5.0, 8.0, 7.0)}
    first = judged(then, now).first
    assert first is not None
    assert first.sentence() == "first at step 10, losses/a: 6.0 then, 8.0 now (1 equal before it)"


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [(curve(1.0, 2.0), curve(1.0), (10, 2.0, None)), (curve(1.0), curve(1.0, 2.0), (10, None, 2.0))],
)
def test_a_point_that_one_side_lacks_is_a_difference(then: Points, now: Points, told: tuple[Any, ...]) -> None:
    first = judged({RETURN: then}, {RETURN: now}).first
    assert first is not None and (first.step, first.then, first.now) == told


def test_a_metric_that_one_side_lacks_is_a_difference() -> None:
    assert judged({RETURN: curve(1.0), "losses/a": curve(1.0)}, {RETURN: curve(1.0)}).kind == Kind.DIFFERENT


@pytest.mark.parametrize(("now", "kind"), [(109.0, Kind.NOISE), (111.0, Kind.DIFFERENT)])
def test_other_seeds_say_what_noise_is(now: float, kind: Kind) -> None:
    curves = {RETURN: curve(1.0, 2.0)}, {RETURN: curve(1.0, 3.0)}
    found = judged(*curves, scores=(100.0, now), noise=Noise(seeds=3, deviation=5.0))
    assert found.kind == kind and "over 3 seeds" in found.sentence


def test_without_seeds_no_noise_is_invented() -> None:
    found = judged({RETURN: curve(1.0, 2.0)}, {RETURN: curve(1.0, 2.1)}, scores=(100.0, 100.0))
    assert found.kind == Kind.DIFFERENT and "fewer than 3 seeds" in found.sentence


def test_of_a_run_that_was_ended_only_what_it_did_is_compared() -> None:
    found = judged({RETURN: curve(1.0, 2.0)}, {RETURN: curve(1.0, 2.0, 3.0)}, ended_at=10)
    assert found.kind == Kind.SAME and found.notes == ["compared up to step 10, where the reproduced run was ended"]


def test_nothing_to_compare_is_no_success() -> None:
    assert judged({}, {}).kind == Kind.UNKNOWN
    assert judged({"charts/SPS": curve(1.0)}, {"charts/SPS": curve(1.0)}).kind == Kind.UNKNOWN


@pytest.mark.parametrize("tag", ["charts/SPS", "system/cpu_seconds", "time/fps", "perf/step_time_ms", "eval/elapsed"])
def test_what_depends_on_speed_is_known_by_its_name(tag: str) -> None:
    assert depends_on_speed(tag)


@pytest.mark.parametrize("tag", [RETURN, "losses/policy_loss", "charts/timesteps", "bdi/confidence", "charts/secret"])
def test_other_names_are_compared(tag: str) -> None:
    assert not depends_on_speed(tag)


def test_a_seed_counts_once_and_two_are_too_few() -> None:
    def scored(seed: int, score: float) -> pb.Run:
        return run_of(seed=seed, headline={"mean_return": score})

    assert noise_of([scored(1, 5.0), scored(2, 7.0), scored(2, 100.0)]) is None
    found = noise_of([scored(1, 5.0), scored(2, 7.0), scored(2, 100.0), scored(3, 9.0), scored(4, math.nan)])
    assert found == Noise(3, 2.0)


# ---- the config --------------------------------------------------------------------------------------------------


def test_the_same_settings_are_repeated_under_a_label_of_their_own(manifest: WorkerManifest) -> None:
    run = run_of()
    config = again(run, manifest)
    assert config["run_name"] == "base-reproduced"
    assert config["metadata"]["reproduces"] == run.run_id
    assert not {"tags", "group", "sweep"} & config["metadata"].keys()
    before = json.loads(run.config_json)["metadata"]["worker"]["config"]
    assert settings_hash(config["metadata"]["worker"]["config"]) == settings_hash(before)
    second = run_of("01NOW", name="base-reproduced")
    second.config_json = json.dumps(config)
    assert reproduced_run(second) == run.run_id
    assert again(second, manifest)["run_name"] == "base-reproduced"
    assert "reproduces" not in duplicated(second)["metadata"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"worker_type": "imported"}, "it was imported"),
        ({"algo": "play"}, "`mosaic replay`"),
        ({"state": "EXEC"}, "`mosaic follow`"),
        ({"started_at": 0.0}, "it never started"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_a_sentence(
    manifest: WorkerManifest, more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CannotReproduceError, match=sentence):
        again(run_of(**more), manifest)


def test_a_worker_that_is_gone_is_named() -> None:
    with pytest.raises(CannotReproduceError, match="its worker 'cleanrl' was not found here"):
        again(run_of(), None)


# ---- then and now ------------------------------------------------------------------------------------------------


class _Queries:
    """Answers as a worker would."""

    def __init__(self, defaults: Mapping[str, Any] | None) -> None:
        self._defaults = defaults

    def python_of(self, manifest: WorkerManifest, bundle: str | None = None) -> Path:
        return Path(sys.executable)

    def describe_flags(self, worker_type: str, settings: Mapping[str, Any], bundle: str | None) -> dict[str, Any]:
        if self._defaults is None:
            raise ToolRefusedError("it does not tell")
        return {"flags": [{"name": name, "default": value} for name, value in self._defaults.items()]}


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[pb.Run, Path, dict[str, Any]]:
    """A run, its script and its manifest."""
    folder, script = tmp_path / "run", tmp_path / "mine.py"
    folder.mkdir()
    script.write_text("print(1)\n")
    told = {
        "environment": surroundings(Path(sys.executable)),
        "code": code_record(script),
        "resolved": {"gamma": 0.9, "lr": 0.1, "seed": 1},
    }
    return run_of(run_dir=str(folder)), script, told


def changed(told: tuple[pb.Run, Path, dict[str, Any]], manifest: WorkerManifest, defaults: Any) -> Any:
    run, script, record = told
    RunPaths(Path(run.run_dir)).manifest.write_text(json.dumps(record))
    return changed_since(run, manifest, {"script": str(script)}, cast(WorkerQueries, _Queries(defaults)))


def test_nothing_changed_and_what_was_not_recorded_is_no_change(recorded: Any, manifest: WorkerManifest) -> None:
    del recorded[2]["environment"]["cpu_model"]  # an older version
    found = changed(recorded, manifest, {"gamma": 0.99, "lr": 0.1})
    assert (found.rows, found.script) == ((), "")
    assert changed(recorded, manifest, None).rows == ()


def test_packages_defaults_and_machine_are_compared(recorded: Any, manifest: WorkerManifest) -> None:
    around = recorded[2]["environment"]
    around["packages"] = {**around["packages"], "numpy": "0.1", "gone": "1.0"}
    around |= {"cpu_model": "Abacus", "python": "2.7", "threads": "7"}
    told = changed(recorded, manifest, {"gamma": 0.5, "lr": 0.2}).as_object()
    names = {one["name"]: one for one in told}
    assert names.keys() == {"lr", "cpu model", "python", "threads", "package numpy", "package gone"}
    assert (names["lr"]["then"], names["lr"]["now"]) == (0.1, 0.2)
    assert names["package gone"]["now"] is None


def test_a_script_that_was_changed_or_is_gone_is_said_with_where_it_is_kept(
    recorded: Any, manifest: WorkerManifest
) -> None:
    run, script, _ = recorded
    script.write_text("print(2)\n")
    found = changed(recorded, manifest, None)
    assert [row.name for row in found.rows] == ["script sha256"]
    assert found.script == f"the script {script} was changed since the run"
    kept = RunPaths(Path(run.run_dir)).code / "script.py"
    kept.parent.mkdir()
    kept.write_text("print(1)\n")
    script.unlink()
    assert changed(recorded, manifest, None).script == (
        f"the script {script} is not there any more; it is kept as it was in {kept}"
    )


def test_a_run_without_a_record_says_so(tmp_path: Path, manifest: WorkerManifest) -> None:
    found = changed_since(run_of(run_dir=str(tmp_path)), manifest, None, cast(WorkerQueries, _Queries({})))
    assert not found.is_recorded


# ---- rows that are written by the clock --------------------------------------------------------------------------


class _Client:
    """Two runs whose rows stand for the episodes of a while."""

    def __init__(self, episodes: Mapping[str, list[float]]) -> None:
        self._episodes = episodes
        self._steps = {run_id: [7 + index] for index, run_id in enumerate(episodes)}

    def metrics(self, run_id: str, tags: Any = (), max_points: int = 0) -> list[pb.MetricSeries]:
        steps = self._steps[run_id]
        return [
            pb.MetricSeries(tag=tag, steps=steps, values=[1.0], wall_times=[0.0], total_points=1)
            for tag in tags or ("charts/episodes", "charts/SPS", RETURN)
        ]

    def episodes(self, run_id: str) -> list[ev.EpisodeSummary]:
        return [ev.EpisodeSummary(episode=n, length=3, total_reward=r) for n, r in enumerate(self._episodes[run_id])]

    def runs(self, **_: Any) -> pb.ListRunsResponse:
        return pb.ListRunsResponse()


@pytest.mark.parametrize(("now", "kind"), [([0.0, 1.0], Kind.SAME), ([0.0, 0.0], Kind.DIFFERENT)])
def test_where_rows_are_written_by_the_clock_the_episodes_are_compared(now: list[float], kind: Kind) -> None:
    client = cast(TrainerClient, _Client({"01THEN": [0.0, 1.0], "01NOW": now}))
    found = verdict_of(client, run_of(), run_of("01NOW"))
    assert found.kind == kind
    assert (found.tags, found.left_out) == (["episode length", "episode return"], ["charts/SPS"])
    assert found.by_clock == ["charts/episodes", RETURN]
    assert found.first is None or found.first.sentence().startswith("first at episode 1, episode return: 1.0 then")
