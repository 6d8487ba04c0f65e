"""Whom a person shares the seat with: what was chosen, else the best there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.services.checkpoints.entry import UNCHECKED, CheckpointEntry
from gym_gui.ui.play.seat_panel import SeatPanel
from gym_gui.ui.theme import Themes
from mosaic_protocol.live.messages import State


def entry(name: str, env_id: str) -> CheckpointEntry:
    path = Path("/checkpoints") / name
    return CheckpointEntry(name, path, "run", name, name, "", "cleanrl", 1, 1, UNCHECKED, algo="ppo", env_id=env_id)


POLES = [entry("pole-1", "CartPole-v1"), entry("pole-2", "CartPole-v1")]


@pytest.fixture
def seat(qapp: QApplication, qtbot: QtBot) -> SeatPanel:
    panel = SeatPanel(Themes(qapp, "dark"))
    qtbot.addWidget(panel)
    return panel


def test_a_policy_is_offered_again_after_a_game_that_has_none(seat: SeatPanel) -> None:
    seat.put_policy(POLES[0])
    seat.offer([], "FrozenLake-v1")
    assert seat.policy is None
    seat.offer(POLES, "CartPole-v1")
    assert seat.policy == POLES[0]
    seat.offer(POLES[1:], "CartPole-v1")
    assert seat.policy == POLES[1], "the one that was chosen is gone: the best that is left, not chance"


def test_chance_stays_where_a_person_chose_it(seat: SeatPanel) -> None:
    seat.offer(POLES, "CartPole-v1")
    assert seat.policy is not None
    seat.choice.setCurrentIndex(0)
    seat.choice.activated.emit(0)
    seat.offer(POLES, "CartPole-v1")
    assert seat.policy is None


def test_chance_in_the_seat_is_not_called_by_the_name_of_a_policy(seat: SeatPanel) -> None:
    seat.offer(POLES, "CartPole-v1")
    seat.tell(State(actor="random"))
    assert (seat.other.title.text(), seat.other.now.text()) == ("Chance", "has the seat")
    seat.tell(State(actor="human"))
    assert seat.other.title.text() == "ppo"
