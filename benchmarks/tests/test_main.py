"""What is kept of a measurement, and which requests are refused before anything is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import learning, scripts_versus_upstream
from benchmarks.__main__ import NAMES, keep, kept_section
from benchmarks.daemon_overhead import Speed
from benchmarks.report import Line, Section

ROOT = Path(__file__).resolve().parents[2]
SPEED = Speed(100, 1.0, 1.0)


def measured(*lines: Line, when: str, problem: str = "") -> Section:
    return Section("walking", "How fast", "Feet.", lines, problem, {"Measured": when})


def test_a_part_replaces_its_lines_and_a_whole_replaces_the_section(tmp_path: Path) -> None:
    keep(measured(Line("a", [1.0]), Line("b", [2.0]), when="monday"), tmp_path)
    keep(measured(Line("b", [3.0]), when="friday"), tmp_path, part=True)
    merged = kept_section("walking", tmp_path)
    assert merged is not None
    assert [(line.values[0], line.apart) for line in merged.lines] == [(1.0, {}), (3.0, {"Measured": "friday"})]
    keep(measured(Line("a", [5.0]), when="sunday"), tmp_path)
    whole = kept_section("walking", tmp_path)
    assert whole is not None
    assert [(line.values[0], line.apart) for line in whole.lines] == [(5.0, {})]
    assert whole.measured == {"Measured": "sunday"}


def test_a_part_that_could_not_be_measured_leaves_what_was_kept(tmp_path: Path) -> None:
    keep(measured(Line("a", [1.0]), when="monday"), tmp_path)
    before = (tmp_path / "walking.json").read_text()
    keep(measured(when="friday", problem="no floor"), tmp_path, part=True)
    assert (tmp_path / "walking.json").read_text() == before


@pytest.mark.parametrize("name", NAMES)
def test_every_kept_section_is_read(name: str) -> None:
    section = kept_section(name, ROOT / "benchmarks" / "results")
    assert section is None or section.name == name


def test_only_the_scripts_that_were_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts_versus_upstream, "ensure", lambda: None)
    monkeypatch.setattr(scripts_versus_upstream, "measured", lambda match, upstream, pairs: [(SPEED, SPEED)])
    section = scripts_versus_upstream.run(lines=["sac", "td3"])
    assert {line.what.partition(",")[0] for line in section.lines} == {"sac_continuous_action", "td3_continuous_action"}
    assert len(scripts_versus_upstream.run().lines) == 4 * len(scripts_versus_upstream.TITLES)
    monkeypatch.setattr(learning, "train", lambda task, seed: learning.Outcome(1.0, 1.0))
    lines = learning.run(lines=["Acrobot"]).lines
    assert {line.what.partition(":")[0] for line in lines} == {learning.TITLES[3]}
    assert {len(line.values) for line in lines} == {len(learning.SEEDS)}


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        (["--only", "scripts_versus_upstream", "--lines", "sacc"], "no line with 'sacc'; it has: ppo, CartPole-v1;"),
        (["--only", "corl", "--lines", "bcc"], "no line with 'bcc'; it has: bc on mix;"),
        (["--only", "corl_mujoco", "--lines", "bcc"], "no line with 'bcc'; it has: bc --n-episodes 5 on replay;"),
        (["--only", "registry_speed", "--lines", "sac"], "registry_speed is measured as a whole"),
    ],
)
def test_a_word_that_chooses_nothing_is_refused_at_once(wish: list[str], answer: str) -> None:
    command = [sys.executable, "-m", "benchmarks", *wish]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert answer in said.stderr
