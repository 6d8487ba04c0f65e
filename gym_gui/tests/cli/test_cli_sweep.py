"""``mosaic sweep`` as a person meets it: started, followed, reported, and refused in one sentence when it is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym_gui.services.sweeps.foreign_studies import read_studies
from gym_gui.tests.cli.test_cli_follow import Following
from gym_gui.tests.support.climbing_worker import climbing_worker
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for

STEPS = 16


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("sweep")
    daemon = DaemonProcess(folder / "home")
    workers = [str(climbing_worker(folder / "workers")), daemon.env["MOSAIC_WORKER_PATH"]]
    daemon.env["MOSAIC_WORKER_PATH"] = os.pathsep.join(workers)
    try:
        yield daemon.start()
    finally:
        daemon.clean_up()


@pytest.fixture
def mosaic(daemon: DaemonProcess) -> CommandLine:
    return CommandLine(daemon.paths.root, daemon.env)


@pytest.fixture
def space(tmp_path: Path) -> Path:
    file = tmp_path / "space.toml"
    file.write_text("height = { low = 1.0, high = 9.0, step = 4.0 }\nturns = 2\n")
    return file


def start(mosaic: CommandLine, space: Path, *more: str) -> tuple[str, ...]:
    return ("sweep", "climb", "--space", str(space), "--total-timesteps", str(STEPS), "--last", "1", *more)


def test_a_sweep_is_followed_shown_reported_and_its_best_measured(mosaic: CommandLine, space: Path) -> None:
    answer = mosaic(*start(mosaic, space, "--sampler", "grid", "--name", "first", "--parallel", "3", "--follow"))
    assert answer.code == 0, answer.err
    assert "The sweep first is over, completed." in answer.out
    assert "Best: trial" in answer.out
    assert "height=9" in answer.out.split("Best: trial")[1]

    shown = mosaic("sweep", "show", "--json").json
    assert shown["name"] == "first", "the newest, where none is named"
    assert [trial["state"] for trial in shown["trials"]] == ["complete"] * 3
    assert sorted(trial["params"]["height"] for trial in shown["trials"]) == [1.0, 5.0, 9.0]
    rows = mosaic("sweep", "show", "first").out.splitlines()[-3:]
    assert [row.split()[-1] for row in rows] == ["9", "5", "1"], "best first"
    (study,) = read_studies(Path(shown["study"]))
    assert len(study.trials) == 3
    assert "first: 3 trials, 3 complete" in mosaic("sweep", "show", "--study", shown["study"]).out

    (listed,) = [one for one in mosaic("sweep", "list", "--json").json["sweeps"] if one["name"] == "first"]
    assert (listed["trials"], listed["best"]["params"]["height"]) == ({"complete": 3}, 9.0)
    report = mosaic("sweep", "report", "--json").json
    assert report == mosaic("sweep", "report", "first", "--json").json
    assert report["steps_trained"] == {"first_seed": 3 * STEPS, "more_seeds": 0, "failed_trials": 0}
    runs = mosaic("runs", "--where", "sweep=first", "--json").json["runs"]
    assert len(runs) == 3

    best = mosaic("sweep", "best", "first", "--seeds", "2", "--json").json["contenders"]
    again = mosaic("sweep", "best", "--seeds", "2", "--json").json["contenders"]
    assert best == again, "asked again, of the newest sweep, it reports the same runs"
    top, default = best
    assert (top["params"], default["label"], default["params"]) == ({"height": 9.0}, "default", {})
    assert top["estimate"]["value"] == pytest.approx(9 * default["estimate"]["value"])
    assert top["beats_default"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert len(mosaic("runs", "--where", "group=first-*-fresh", "--json").json["runs"]) == 4

    refused = mosaic("sweep", "resume", "first")
    assert (refused.code, "--budget +50%" in refused.err) == (2, True)
    assert "the seed 1 is not fresh" in mosaic("sweep", "best", "first", "--first-seed", "1").err


def test_who_follows_a_sweep_or_waits_for_its_best_outlives_the_daemon(
    mosaic: CommandLine, daemon: DaemonProcess, space: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    more = ("--trials", "1", "--name", "gated", "--gate", str(gate), "--gate-at", "4", "--no-preflight", "--follow")
    for words, said in (
        (start(mosaic, space, *more), "The sweep gated is over, completed."),
        (("sweep", "best", "gated", "--seeds", "1"), "default"),
    ):
        gate.unlink(missing_ok=True)
        following = Following(mosaic, tmp_path / words[1], *words)
        try:
            wait_for("a run to train", lambda: any(run.state == "EXEC" for run in daemon.client.runs().runs))
            daemon.kill()
            following.wait_until_it_says("trainer daemon away, waiting")
            daemon.start()
            gate.touch()
            assert following.ended() == 0 and said in following.out, following.err
        finally:
            following.process.kill()


def test_programs_are_given_the_plan_of_a_dry_run(mosaic: CommandLine, space: Path) -> None:
    plan = ("--dry-run", "--no-preflight", "--json")
    told = mosaic(*start(mosaic, space, "--pruner", "asha", "--seeds", "3", *plan)).json
    assert told["spec"]["rungs"] == [4, 8], "a quarter of the run, then twice that"
    assert told["spec"]["seeds"] == [1, 2, 3]
    assert told["spec"]["fixed"] == {"turns": 2}
    expected = told["expected"]
    assert expected["most_steps"] == 20 * 3 * STEPS
    assert (expected["most_seconds"] is None) == (expected["estimate"] is None), "a time rests on runs that were here"
    assert mosaic(*start(mosaic, space, "--pruner", "median", "--dry-run", "--json")).json["spec"]["rungs"] == [
        4,
        8,
        12,
    ]


def test_what_a_sweep_will_take_is_told_before_it_starts(mosaic: CommandLine, space: Path) -> None:
    slow = start(mosaic, space, "--pace", "0.1", "--no-preflight", "--trials", "2")
    plan = mosaic(*slow, "--seeds", "2", "--pruner", "asha", "--dry-run").out
    assert f"steps in all    {4 + 4 + 12 + STEPS} to {4 * STEPS}, as the pruner finds, in up to 4 runs" in plan
    assert "seeds           1, then 1 more for trials that get to the end" in plan
    assert mosaic("train", "climb", "--total-timesteps", str(STEPS), "--pace", "0.1", "--no-preflight").code == 0
    started = mosaic(*slow, "--name", "told")
    assert started.code == 0 and started.out.startswith("Expected: about "), started.err
    assert "for the whole sweep" in started.out.splitlines()[0]
    assert mosaic("sweep", "stop", "told").code == 0


def test_a_population_is_judged_by_evaluations_shown_with_its_turns_and_measured(
    mosaic: CommandLine, tmp_path: Path
) -> None:
    space, notes = tmp_path / "space.toml", tmp_path / "notes"
    space.write_text("height = { low = 1.0, high = 50.0 }\n")
    notes.mkdir()
    words = [
        "sweep",
        "climb",
        "--space",
        str(space),
        "--total-timesteps",
        "40",
        "--notes",
        str(notes),
        "--pace",
        "0.02",
    ]
    words += ["--pruner", "pbt", "--interval", "20", "--trials", "2", "--parallel", "2", "--evaluate", "3"]
    answer = mosaic(*words, "--name", "members", "--follow")
    assert answer.code == 0, answer.err
    assert "1 time a member went on as a copy of a better one" in answer.out
    shown = mosaic("sweep", "show", "members", "--json").json
    worse, better = sorted(shown["trials"], key=lambda trial: trial["rungs"][0]["value"])
    assert [turn["source"] for trial in (worse, better) for turn in trial["turns"]] == [better["number"]] * 2
    assert worse["turns"][0]["params"] == worse["params"]
    assert all(trial["value"] == pytest.approx(trial["params"]["height"] + 0.04) for trial in shown["trials"])
    assert "maximize the IQM of 3 evaluated episodes (deterministic)" in mosaic("sweep", "show", "members").out
    (study,) = read_studies(Path(shown["study"]))
    assert [trial.values[0] for trial in study.trials] == [trial["value"] for trial in shown["trials"]]
    best = mosaic("sweep", "best", "members", "--seeds", "1", "--json").json["contenders"]
    assert [one["values"] for one in best] == [[pytest.approx(one["params"].get("height", 1.0) + 0.04)] for one in best]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hieght = [1.0]", "space.toml, line 1: hieght is not a setting of the script; did you mean 'height'?"),
        ("height = { low = 5.0, high = 1.0 }", "space.toml, line 1: height is empty"),
        ("height = { low = 0.0, high = 1.0, log = true }", "logarithmic range through zero"),
        ("height = [1.0, 500.0]", "the highest value of every setting makes no run: --height is above 100"),
        ("mode = ['up', 'dwon']", "does not take 'dwon'"),
    ],
)
def test_a_wrong_space_is_refused_before_anything_starts(
    mosaic: CommandLine, tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    before = len(mosaic("sweep", "list", "--json").json["sweeps"])
    answer = mosaic(*start(mosaic, file))
    assert answer.code == 2
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1
    assert len(mosaic("sweep", "list", "--json").json["sweeps"]) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sweep", "climb"), "--space is missing"),
        (("sweep", "climb", "--space", "nowhere.toml"), "nowhere.toml cannot be read: No such file"),
        (("sweep", "clim", "--space", "nowhere.toml"), "there is no algorithm 'clim'; did you mean 'climb'?"),
        (("sweep", "shwo", "first"), "there is no command 'shwo'; did you mean 'show'?"),
        (("sweep", "show", "first", "--study", "nowhere.db"), "name a sweep, or a file with --study, not both"),
        (("sweep", "show", "nobody"), "no sweep is called 'nobody': `mosaic sweep list` lists them"),
        (("sweep", "show", "--study", "nowhere.db"), "there is no file nowhere.db"),
        (("sweep", "pause", "nobody"), "no sweep is called 'nobody'"),
        (("sweep", "resume", "nobody", "--budget", "50%"), "--budget takes +10 or +50%, got '50%'"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(mosaic: CommandLine, words: tuple[str, ...], sentence: str) -> None:
    answer = mosaic(*words)
    assert answer.code in (2, 3)
    assert sentence in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--rungs", "5"), "--rungs are for a pruner"),
        (("--mode", "sideways"), "--mode is not one of the choices"),
        (("--pruner", "asha", "--rungs", "9,5"), "--rungs are steps in ascending order below 16"),
        (("--pruner", "asha", "--rungs", "16"), "--rungs are steps in ascending order below 16"),
        (("--trials", "0"), "--trials must be at least 1"),
        (("--evaluate", "5"), "choose one of --evaluate and --last"),
        (("--pruner", "pbt", "--seeds", "2"), "pbt gives each member of its population a seed of its own"),
        (("--patiance", "3"), "there is no option '--patiance'; did you mean '--patience'?"),
        (("--name", "first\nsecond"), "a sweep's name is one line"),
    ],
)
def test_options_that_cannot_be_are_refused(
    mosaic: CommandLine, space: Path, options: tuple[str, ...], sentence: str
) -> None:
    answer = mosaic(*start(mosaic, space, *options))
    assert answer.code == 2
    assert sentence in answer.err
