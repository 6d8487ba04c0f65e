"""Pages about algorithms: each has the steps to plan for, from the one table."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gym_gui.ui.workers.cleanrl.documentation import BASES, PAGES, STEPS, with_steps
from gym_gui.ui.workers.corl.documentation import PAGES as CORL_PAGES
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_protocol.worker_presets import presets_of

MANIFEST = load_manifest(Path(__file__).parents[3] / "cleanrl_worker")
ROWS = tomllib.loads((PAGES / "timesteps.toml").read_text())["rows"]


@pytest.mark.parametrize("algo", MANIFEST.algorithms)
def test_every_page_has_the_steps_by_family_and_says_where_they_come_from(algo: str) -> None:
    text = (PAGES / f"{algo}.html").read_text()
    assert text.count(STEPS) == 1
    page = with_steps(text, algo)
    of_algorithm = [row for row in ROWS if algo in row["algorithms"]]
    assert of_algorithm and STEPS not in page
    for row in of_algorithm:
        assert f"<td>{row['family']}</td><td>{row['steps']}</td><td>{BASES[row['basis']]}</td>" in page


def test_the_table_names_only_algorithms_that_there_are() -> None:
    assert {algo for row in ROWS for algo in row["algorithms"]} == set(MANIFEST.algorithms)


def test_what_was_measured_is_the_evidence_of_a_preset() -> None:
    measured = {(algo, row["steps"]) for row in ROWS if row["basis"] == "measured" for algo in row["algorithms"]}
    presets = presets_of(MANIFEST)[0]
    assert measured == {(one.algo, f"{one.total_timesteps:,}") for one in presets}
    for one in presets:
        remarks = " ".join(row.get("remark", "") for row in ROWS if one.algo in row["algorithms"])
        for figure in (one.evidence.preset, one.evidence.default):
            assert f"{figure.value:.0f} [{figure.low:.0f}, {figure.high:.0f}]" in remarks


CORL = load_manifest(Path(__file__).parents[3] / "corl_worker")


@pytest.mark.parametrize("algo", CORL.algorithms)
def test_every_offline_algorithm_has_a_page_whose_flags_there_are(algo: str) -> None:
    page = (CORL_PAGES / f"{algo}.html").read_text()
    script = (CORL.package_dir / str(CORL.algorithms[algo].script)).read_text()
    known = set(re.findall(r"^    (\w+): ", script, re.MULTILINE))
    named = set(re.findall(r"--([a-z][a-z-]+)", page)) - {"warm-start"}
    assert named and {flag.replace("-", "_") for flag in named} <= known
