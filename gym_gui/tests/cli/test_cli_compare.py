"""``mosaic compare`` and ``mosaic plot`` over runs of a real daemon."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

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
            daemon.submit(name=f"{name}-{n}", seed=n, offset=offset + n, total_timesteps=STEPS, step_seconds=0, **more)
            for name, offset, more in (("good", 1000, {"also": "losses/also"}), ("poor", 0, {}))
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
    assert good["curves"]["step"]["iqm"][-1]["value"] == pytest.approx(LAST_100 + 1001)
    rows = list(csv.DictReader(mosaic("compare", "name=poor-*", "--each", "seed", "--csv").out.splitlines()))
    assert [row["group"] for row in rows] == ["0", "1", "2"]
    assert r"\begin{tabular}{lrrrr}" in mosaic("compare", "--latex", "name=good-*").out
    (named,) = mosaic("compare", 'name=good-* as "Good"', "--json").json["groups"]
    assert named["label"] == "Good", "one group that has a name is not divided"


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
        (("--open",), "name it with --out"),
        (("name=good-*", "--each", "ofset"), "did you mean 'offset'?"),
        (('name=good-* as "Good"', "--each", "seed"), "leave the name behind as out"),
        (("--out", "report.pdf"), "must end in .html, .png, .svg, .csv, .tex or .json"),
        (("--out", "/no/such/folder/report.html"), "there is no folder"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    mosaic: CommandLine, words: tuple[str, ...], sentence: str
) -> None:
    answer = mosaic("compare", *words)
    assert answer.code == 2 and sentence in answer.err, answer.err


def test_without_runs_there_is_nothing_to_compare(daemon: DaemonProcess) -> None:
    assert "there are no runs yet" in CommandLine(daemon.paths.root, daemon.env)("compare").err


# ---- files -------------------------------------------------------------------------------------------------------


def test_a_report_is_written_beside_what_is_printed(mosaic: CommandLine, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    answer = mosaic("compare", 'name=good-* as "Good"', 'name=poor-* as "<i>Poor</i>"', "--out", str(report))
    assert answer.code == 0, answer.err
    assert "Good" in answer.out and answer.out.rstrip().endswith("report.html")
    text = report.read_text()
    assert "Content-Security-Policy" in text and "&lt;i&gt;Poor&lt;/i&gt;" in text and "<i>Poor" not in text
    assert "mosaic compare &#x27;name=good-* as" in text
    assert "<td>poor-9</td>" in text, "what was left out is in it"
    again = mosaic("compare", "name=good-*", "--out", str(report))
    assert again.code == 2 and "is there already" in again.err and report.read_text() == text
    replaced = mosaic("compare", "name=good-*", "--out", str(report), "--force", "--json")
    assert json.loads(replaced.out)["groups"] and "Written to" in replaced.err
    assert report.read_text() != text and list(tmp_path.iterdir()) == [report]
    (tmp_path / "folder.html").mkdir()
    assert "is a folder" in mosaic("compare", "--force", "--out", str(tmp_path / "folder.html")).err


def test_a_place_that_cannot_be_written_is_named(mosaic: CommandLine) -> None:
    answer = mosaic("compare", "name=good-*", "--out", "/proc/report.csv")
    assert answer.code == 1 and "cannot write /proc/report.csv" in answer.err


def test_without_a_screen_nothing_is_opened_and_the_file_is_there(
    mosaic: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.setitem(mosaic.environment, name, "")
    answer = mosaic("compare", "name=good-*", "--out", str(tmp_path / "c.svg"), "--open")
    assert answer.code == 0 and "no browser was found" in answer.err and (tmp_path / "c.svg").is_file()


def test_runs_and_groups_are_lines_of_one_plot(mosaic: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "curve.svg"
    words = ("good-0", "name=poor-* seed=0..1", 'name=good-* seed=1..2 as "The & rest"')
    answer = mosaic("plot", *words, "--tag", "charts/episodic_return", "--tag", "charts/SPS", "--out", str(file))
    assert answer.code == 0, answer.err
    texts = [one.text or "" for one in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:4] == ["good-0", "poor-0", "poor-1", "The & rest"]
    assert "charts/episodic_return, mean of the newest 100" in texts and "charts/SPS" in texts
    assert any(text.startswith("Thick: smoothed") for text in texts)
    picture = tmp_path / "curve.png"
    assert mosaic("plot", "last", "--x", "time", "--smooth", "1", "--out", str(picture)).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_a_plot_lacks_is_said(mosaic: CommandLine, tmp_path: Path) -> None:
    answer = mosaic("plot", "good-0", "poor-0", "--tag", "losses/also", "--out", str(tmp_path / "a.svg"))
    assert answer.code == 0 and "(poor-0) has no metric losses/also" in answer.out
    left = mosaic("plot", 'name=poor-* as "Poor"', "--out", str(tmp_path / "b.svg"))
    assert "(poor-9) is left out: failed" in left.out and "Note: Poor" in left.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("good-0",), 2, "say where to write the picture, as in --out curve.png"),
        (("good-0", "--out", "x.html"), 2, "must end in .png or .svg"),
        (("nobody", "--out", "x.svg"), 3, "no run is called 'nobody'"),
        (("name=nobody", "--out", "x.svg"), 2, "no run matches 'name=nobody'"),
        (("naem=good", "--out", "x.svg"), 2, "did you mean 'name'?"),
        (("good-0", "--tag", "charts/SPSS", "--out", "x.svg"), 2, "did you mean 'charts/SPS'?"),
        (("good-0", "--x", "cpu", "--out", "x.svg"), 2, "no CPU time is stored"),
        (("good-0", "name=good-* as G", "--out", "x.svg"), 2, "has runs that are drawn already"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(
    mosaic: CommandLine, words: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = mosaic("plot", *words)
    assert answer.code == code and sentence in answer.err, answer.err
