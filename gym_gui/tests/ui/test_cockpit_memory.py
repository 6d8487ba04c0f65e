"""What the cockpit remembers, damaged in every way a file can be: it opens, nothing breaks, and it forgets the rest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import gym_gui.ui
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.ending import delete_now
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, remember, train_dock

__all__ = ["open_whole"]

KNOWN = {
    "theme": "light",
    "window.geometry": "AAAA",
    "window.state": "AAAA",
    "welcome.seen": True,
    "train.mode": "agent",
    "train.what": "use",
    "train.presets": True,
    "train.worker": "toy",
    "train.form.toy": {"run": {"seed": "4"}, "settings": {"say": "x"}, "hardware": {}, "remarks": {}},
    "train.form.cleanrl": {
        "script": {"source": "own", "algo": "ppo"},
        "params": {"ppo||||": {"gamma": "0.9"}},
        "env_id": "CartPole-v1",
        "start": {"kind": "scratch"},
        "run": {"seed": "4"},
        "artifacts": {},
        "hardware": {},
        "wandb": {},
        "remarks": {},
        "open": {"notes": True},
    },
    "presets.train": {"one": {"worker": "toy", "form": {"run": {"seed": "4"}}}},
    "presets.use": {"one": {"filter": "x"}},
    "checkpoints.episodes": 5,
    "checkpoints.filter": "x",
    "run-tabs.front": "tensorboard",
    "stage.own-view": False,
    "live.minimal-stream": True,
    "play.game": {
        "env_id": "FrozenLake-v1",
        "seed": 7,
        "session": {"speed": "2"},
        "settings": {"FrozenLake-v1": {"slippery": False}},
    },
    "play.keys": {"FrozenLake-v1": {"a": 0, "left": None}},
    "play.view": "grid",
    "log.wrap": False,
    "metrics.options": {"smoothing": 3, "x": "time", "together": True, "log_x": True, "log_y": True},
    "metrics.charts": {"groups": {"losses": ["losses/value_loss"]}, "hidden": ["charts/SPS"]},
    "metrics.export_folder": "/nowhere",
    "replay.export_folder": "/nowhere",
    "datasets.folder": "/nowhere",
    "replay.inspector": "mind",
    "runs.columns": {"order": ["name"], "hidden": ["seed"], "widths": {"name": 90}},
    "runs.sort": {"column": "name", "descending": False},
    "runs.filter": {"text": "x", "kinds": ["live"]},
    "runs.grouping": "algorithm",
    "runs.marks": {
        "pinned": ["01K9ZQ3V7X0000000000000000"],
        "hidden": [],
        "colours": {"01K9ZQ3V7X0000000000000000": 2},
    },
    "runs.views": {
        "mine": {
            "columns": {"order": ["name"], "hidden": ["seed"], "widths": {"name": 90}},
            "sort": {"column": "name", "descending": False},
            "filter": {"text": "x", "kinds": ["live"]},
            "grouping": "algorithm",
        }
    },
    "differences.only": False,
}
WRONG: list[Any] = [
    None,
    True,
    -1,
    10**30,
    1.5,
    "",
    "\ud800 \x00 odd",
    [],
    [[], {}, 7],
    {},
    {"": {"": []}, "x": 7},
]


def _spoilt(value: Any, wrong: Any) -> list[Any]:
    """A value with a wrong thing in its place, and in the place of everything inside it."""
    found = [wrong]
    if isinstance(value, dict):
        for name, inside in value.items():
            found += [{**value, name: spoilt} for spoilt in _spoilt(inside, wrong)]
    if isinstance(value, list):
        found += [[wrong, *value], [wrong] * len(value)]
    return found


def _names_in_the_code() -> set[str]:
    """Every literal name that is asked of the preferences, also through a constant of its module."""
    found: set[str] = set()
    for file in Path(gym_gui.ui.__file__).parent.rglob("*.py"):
        text = file.read_text()
        constants = dict(re.findall(r'^\s*(_\w+) = "([\w.-]+)"$', text, re.MULTILINE))
        for asked in re.findall(r'references\.get\(\s*("[\w.-]+"|(?:self\.)?_[A-Z_]+)', text):
            name = asked.removeprefix("self.")
            found.add(name.strip('"') if name.startswith('"') else constants[name])
    return found


def test_every_remembered_name_is_tried_here() -> None:
    assert _names_in_the_code() - set(KNOWN) == set()


_BY_DAY = {0, 3, 6, 8, 10}
"""Nothing, a number beyond all, text that is none, and the wrong kinds inside a list and a mapping."""
_NUMBERS = [
    pytest.param(number, marks=[] if number in _BY_DAY else [pytest.mark.nightly]) for number in range(len(WRONG))
]


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_wrong_value_anywhere_in_the_memory_is_not_believed(open_whole: OpenWhole, number: int) -> None:
    """The same wrong value for everything, and then somewhere inside everything."""
    _opens(open_whole(memory=dict.fromkeys(KNOWN, WRONG[number]), connect=False))
    chance = Random(number)
    spoilt = {name: chance.choice(_spoilt(value, chance.choice(WRONG))) for name, value in KNOWN.items()}
    _opens(open_whole(memory=spoilt, connect=False))


def _opens(cockpit: Any) -> None:
    dock = train_dock(cockpit)
    for bar in (dock.train_presets, dock.use_presets):
        for row in range(bar.choice.count()):
            bar.choice.setCurrentIndex(row)
            bar.choice.activated.emit(row)
    QApplication.processEvents()
    cockpit.window.remember()
    assert cockpit.window.isVisible() and cockpit.reporter.reports == []
    cockpit.close()
    delete_now(cockpit)


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", '"x"', "[" * 100_000, "\x00\x01"], ids=range(7))
def test_a_file_that_is_no_memory_is_put_aside(open_whole: OpenWhole, content: str) -> None:
    cockpit = open_whole(memory=content, connect=False)
    assert cockpit.window.isVisible()
    cockpit.window.remember()
    assert isinstance(json.loads((cockpit.bridge.paths.root / "cockpit.json").read_text()), dict)


@pytest.mark.parametrize("worker", ["toy", "cleanrl"])
def test_forms_take_from_a_damaged_state_what_makes_sense(
    open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot, worker: str
) -> None:
    memory = {**KNOWN, "train.what": "train", "train.worker": worker, f"train.form.{worker}": {"run": 7}}
    cockpit = open_whole(daemon, memory)
    dock = train_dock(cockpit)
    qtbot.waitUntil(lambda: worker in dock.forms, timeout=HANG)
    for wrong in WRONG:
        for state in _spoilt(KNOWN[f"train.form.{worker}"], wrong):
            if isinstance(state, dict):
                dock._put_train_state({"worker": worker, "form": state})
    assert cockpit.reporter.reports == []


def test_a_home_without_writing_costs_the_memory_and_not_the_session(open_whole: OpenWhole, tmp_path: Path) -> None:
    home = tmp_path / "sealed"
    remember(home, {"theme": "light"})
    (home / "cockpit.json").unlink()
    (home / "cockpit.json").mkdir()  # nobody may write here, not even root
    (home / "cockpit.json" / "inside").write_text("x")
    cockpit = open_whole(home=home, connect=False)
    cockpit.window.remember()
    assert cockpit.window.isVisible()
