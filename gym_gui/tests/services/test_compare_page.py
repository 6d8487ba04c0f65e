"""The report as a page: self-contained, safe with any name, small, and with everything that a reader must know."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gym_gui.services.compare import files, page
from gym_gui.services.compare.comparison import Comparison, Question, compared
from gym_gui.services.compare.measures import By, Curve, Measured
from gym_gui.services.compare.origin import data_hash, origin_of
from gym_gui.tests.services.test_compare import made, scored

ABOUT = page.About("mosaic compare 'algo=ppo as \"<b>\"' --out r.html", "2026-11-17 12:00 UTC")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x00\u202e"


def trained(number: int, score: float, *, name: str = "", points: int = 200, **about: Any) -> Measured:
    steps = np.linspace(10, 1000, points)
    run = made(number, seed=number, **about)
    run.name = name or run.name
    settings = {"learning_rate": 0.01 if run.algo == "ppo" else 0.02, "gamma": 0.99}
    run.config_json = json.dumps({"metadata": {"worker": {"config": settings}}})
    curve = Curve(steps, score * steps / 1000, steps / 10)
    return Measured(run, score, curve=curve)


def comparison(*, name: str = "", seeds: int = 5, label: str = "PPO", **question: Any) -> Comparison:
    left = Measured(made(99, outcome="failed"), why_not=f"failed: {name or 'exited with status 1'}")
    return compared(
        {
            label: [*(trained(n, 400 + n, name=name) for n in range(seeds)), left],
            "DQN": [trained(n + 50, 300 + n, algo="dqn") for n in range(seeds)],
        },
        Question(samples=200, **question),
    )


def document(found: Comparison) -> str:
    return page.document(found, origin_of(found), ABOUT)


class Reader(HTMLParser):
    """Every tag with its attributes, the texts of scripts and styles, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.text = ""
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag if tag in self.inside else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inside[self._open].append(data)
        else:
            self.text += f"{data} "


def test_it_has_everything_that_a_reader_must_know() -> None:
    found = comparison()
    read = Reader(document(found))
    for said in (
        "PPO has the highest IQM: 402 [",
        "Performance profile",
        "Probability of improvement",
        "exited with status 1",
        "PPO: 1 run left out (1 failed)",
        "settings learning_rate 0.01 0.02",
        "1 other recorded things are equal",
        "NumPy",
        ABOUT.command,
        data_hash(found),
    ):
        assert said in " ".join(read.text.split()), said
    dots = [attributes for tag, attributes in read.tags if tag == "circle"]
    assert len(dots) == 10, "every seed is a dot"
    assert sum(tag == "svg" for tag, _ in read.tags) == 5, "scores, curves over steps and time, who beats whom, profile"
    assert all(attributes.get("aria-label") for tag, attributes in read.tags if tag == "svg")
    assert sum(tag == "details" for tag, _ in read.tags) == 3, "the numbers of each curve, as a table"


def test_nothing_is_loaded_and_only_its_own_program_may_run() -> None:
    text = document(comparison(name=HOSTILE, label=HOSTILE))
    read = Reader(text)
    for tag, attributes in read.tags:
        assert not {"src", "href", "style", "action", "srcset"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    style, script = read.inside["style"][0], read.inside["script"][1]
    assert not re.search(r"url\(|@import", style) and not re.search(r"fetch|XMLHttp|innerHTML|eval|import\(", script)
    policy = next(a["content"] for tag, a in read.tags if tag == "meta" and a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for part in (style, script):
        assert base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() in policy


def test_a_name_is_text_wherever_it_stands() -> None:
    read = Reader(document(comparison(name=HOSTILE, label=HOSTILE)))
    kinds = {tag for tag, _ in read.tags}
    assert "img" not in kinds and sum(tag == "script" for tag, _ in read.tags) == 2
    assert "onerror=alert(2)" in read.text, "it can be read all the same"
    data = json.loads(read.inside["script"][0])
    assert data["charts"]["profile"]["series"][0]["label"].startswith("</script>")


def test_one_seed_has_no_interval_and_the_page_says_so() -> None:
    found = comparison(seeds=1)
    text = Reader(document(found)).text
    assert "no interval can be given" in text and "[" not in page.finding(found)


def test_whether_the_intervals_overlap_is_said() -> None:
    near = compared({"A": scored([1, 5, 9]), "B": scored([2, 5, 8])}, Question(samples=200))
    assert "do not settle which is better" in page.finding(near)
    assert "do not settle" not in page.finding(comparison()) and "few runs" not in page.finding(comparison())
    assert "These are few runs" in page.finding(comparison(seeds=3))


def test_an_evaluation_is_called_one_and_has_no_training_curve() -> None:
    found = compared({"A": scored([1, 2, 3]), "B": scored([2, 3, 4])}, Question(By.EVALUATION, samples=200))
    text = document(found)
    assert "Mean return evaluated" in text and "How it was reached" not in text and "last 100" not in text


def test_thirty_runs_fit_into_a_mail() -> None:
    assert len(document(comparison(seeds=15)).encode()) < 5 * 2**20


def test_the_hash_is_of_the_data_and_of_nothing_else() -> None:
    found, again = comparison(), comparison()
    turned = compared({g.label: g.runs[::-1] for g in reversed(found.groups)}, Question(samples=100))
    assert data_hash(found) == data_hash(again) == data_hash(turned)
    other = comparison()
    first = other.groups[0].runs[0]
    assert first.curve is not None
    first.curve.values[3] += 1e-9
    assert data_hash(other) != data_hash(found)


@pytest.mark.parametrize("name", files.FORMATS)
def test_every_format_holds_the_comparison(name: str) -> None:
    content = files.content(comparison(), Path(f"x{name}"), ABOUT)
    match name:
        case ".json":
            found = json.loads(content)
            assert [group["label"] for group in found["groups"]] == ["PPO", "DQN"]
            assert found["groups"][0]["curves"]["time"]["at"][-1] == pytest.approx(100.0)
            assert len(found["groups"][0]["profile"]) == len(found["profile_levels"])
        case ".csv":
            assert len(list(csv.DictReader(content.decode().splitlines()))) == 11
        case ".tex":
            assert rb"\begin{tabular}" in content
        case ".png":
            assert content.startswith(b"\x89PNG")
        case _:
            assert b"PPO, DQN on CartPole-v1" in content
