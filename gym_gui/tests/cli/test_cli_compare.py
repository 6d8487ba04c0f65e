"""``mosaic compare`` over runs of a real daemon."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess

STEPS = 120
LAST_100 = sum(range(STEPS - 99, STEPS + 1)) / 100
"""The toy worker returns its step, plus an offset."""


@pytest.fixture(scope="module")
def mosaic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("compare") / "home")
    try:
        daemon.start()
        runs = [
            daemon.submit(name=f"{name}-{n}", seed=n, offset=offset + n, total_timesteps=STEPS, step_seconds=0)
            for name, offset in (("good", 1000), ("poor", 0))
            for n in range(3)
        ]
        runs.append(daemon.submit(name="poor-9", seed=9, total_timesteps=100, misbehave="crash"))
        for run_id in runs:
            daemon.wait_over(run_id)
        yield CommandLine(daemon.paths.root, daemon.env)
    finally:
        daemon.clean_up()


def test_groups_are_told_with_intervals_every_run_and_what_weakens_them(mosaic: CommandLine) -> None:
    answer = mosaic("compare", 'name=good-* as "Good"', "name=poor-*")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].endswith(": mean of the last 100 returns of training")
    assert any(line.split()[:3] == ["Good", "3", f"{LAST_100 + 1001:.0f}"] for line in lines), answer.out
    assert any(line.split()[:4] == ["Good", "name=poor-*", "1", "[1,"] for line in lines), answer.out
    assert "Note: name=poor-*: 1 run left out (1 failed)" in lines


def test_programs_get_the_same(mosaic: CommandLine) -> None:
    found = mosaic("compare", "name=good-*", "name=poor-* seed=0..1", "--at", "100", "--json").json
    good, poor = found["groups"]
    assert [run["score"] for run in sorted(poor["runs"], key=lambda run: run["seed"])] == [50.5, 51.5]
    assert good["estimates"]["iqm"]["value"] == pytest.approx(1051.5)
    assert good["curve"]["iqm"][-1]["value"] == pytest.approx(LAST_100 + 1001)
    rows = list(csv.DictReader(mosaic("compare", "name=poor-*", "--each", "seed", "--csv").out.splitlines()))
    assert [row["group"] for row in rows] == ["0", "1", "2"]
    assert r"\begin{tabular}{lrrrr}" in mosaic("compare", "--latex", "name=good-*").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("name=nobody", "name=good-*"), "no run matches 'name=nobody'"),
        (("name=good-*", "name=*-1"), "good-1 is in"),
        (("naem=good", "name=good-*"), "did you mean 'name'?"),
        (("name=poor-9",), "nothing of"),
        (("name=good-*", "--at", "1M"), "nothing of"),
        (("--reference", "CartPole-v1=1"), "--reference takes ENV=LOW:HIGH"),
        (("--reference", "CartPole-v1=1:nan"), "two different finite numbers"),
        (("--by", "evaluation"), "never evaluated"),
        (("--by", "evaluation", "--at", "3"), "leave it out with --by evaluation"),
        (("--json", "--csv"), "choose one of"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    mosaic: CommandLine, words: tuple[str, ...], sentence: str
) -> None:
    answer = mosaic("compare", *words)
    assert answer.code == 2 and sentence in answer.err, answer.err


def test_without_runs_there_is_nothing_to_compare(daemon: DaemonProcess) -> None:
    assert "there are no runs yet" in CommandLine(daemon.paths.root, daemon.env)("compare").err
