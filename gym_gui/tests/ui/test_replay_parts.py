"""The parts of the Replay screen that need no process: what is said, what is drawn where, when a place is due."""

from __future__ import annotations

import numpy as np
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.ui.replay.desk import Opened
from gym_gui.ui.replay.player import Player
from gym_gui.ui.replay.reward_strip import RewardStrip, columns, ticks
from gym_gui.ui.replay.words import badge, card_badge, number_words, picture_note, verdict_here, why_verified
from gym_gui.ui.theme import Themes
from mosaic_protocol.replay_messages import Checked, Differing, Shown

DIFFERING = Differing(41, 1041, "reward", "1", "2", "step 41 differs: reward was 1, now it is 2")


def opened(**facts: object) -> Opened:
    return Opened(("run", 3), "Episode 3", steps=187, **facts)  # type: ignore[arg-type]


def test_a_verdict_is_said_in_the_colour_that_it_deserves() -> None:
    assert badge(None).text == "checking…" and badge(None, "it was killed").text == "not verified"
    assert badge(Checked(20, 187)).text == "checking 20/187"
    verified = badge(Checked(187, 187, done=True, observations=187, rewards=187))
    assert (verified.text, verified.colour) == ("verified 187/187 steps", "good")
    differs = badge(Checked(41, 187, done=True, difference=DIFFERING))
    assert (differs.text, differs.colour, differs.role) == ("differs from step 41", "warning", "warning")
    assert badge(Checked(3, 187, done=True, stopped="it broke")).colour == "bad"
    assert card_badge(Checked(20, 187)).text == "" and card_badge(Checked(187, 187, done=True)).text == "✓ verified"


def test_each_step_says_whether_it_is_as_recorded() -> None:
    now = opened(checked=Checked(41, 187, done=True, difference=DIFFERING, repeats_itself=False))
    said = [verdict_here(now, place).text for place in (40, 41, 42)]
    assert said == ["✓ same as recorded", "differs", "not comparable"]
    assert "not deterministic" in why_verified(now) and why_verified(now).startswith("Step 41 differs")
    now.checked = Checked(41, 187, done=True, difference=DIFFERING, repeats_itself=True)
    assert "another version or other settings" in why_verified(now)
    versions: dict[str, list[str | None]] = {"gymnasium": ["1.0", "1.2"]}
    now.checked = Checked(41, 187, done=True, difference=DIFFERING, repeats_itself=True, other_versions=versions)
    assert "gymnasium 1.0 → 1.2" in why_verified(now)
    now.checked = Checked(20, 187)
    assert verdict_here(now, 30).text == "not checked yet" and why_verified(now) == ""
    now.checked = Checked(187, 187, done=True, rewards=187)
    assert "Observations were not recorded" in why_verified(now)
    assert verdict_here(now, 187).text == "✓ same as recorded"
    now.checked = Checked(187, 187, done=True, checked=187, observations=3, rewards=187)
    assert "3 observations, 187 rewards" in why_verified(now)


def test_what_could_not_be_compared_is_not_called_verified() -> None:
    now = opened(checked=Checked(3, 187, done=True, checked=187, observations=3))
    assert now.checked is not None and badge(now.checked).colour == "warning"
    assert card_badge(now.checked).text == "verified 3/187 steps"
    assert "of 184 steps: they are not verified" in why_verified(now)
    assert verdict_here(now, 2).text == verdict_here(now, 100).text == "no difference"


def test_a_picture_that_is_not_the_simulations_says_so() -> None:
    assert picture_note(opened(shown=Shown(5, 5, "file", "simulation")), 5) == ""
    clip = opened(shown=Shown(50, 41, "file", "clip", "the simulation leaves the recording at step 41"))
    assert picture_note(clip, 50).endswith("at step 41: this picture was recorded.")
    nothing = opened(shown=Shown(50, 41, why="the simulation leaves the recording at step 41"))
    assert "No picture of this step was recorded" in picture_note(nothing, 50)
    assert "What was recorded is shown" in picture_note(opened(gone="it was killed"), 5)
    assert picture_note(opened(trouble="the environment does not come back from step"), 5).endswith("from step.")


def test_numbers_are_short_and_have_a_true_minus() -> None:
    assert [number_words(value) for value in (0.0, -1.08, 3.0, 12345.678, 0.00004)] == [
        *("0", "−1.080", "3", "1.235e+04", "4e-05")
    ]
    assert number_words(2.5, signed=True) == "+2.500" and number_words(float("inf")) == "∞"


def test_a_column_shows_the_extremes_of_its_steps() -> None:
    rewards = np.zeros(1000)
    rewards[501], rewards[502], rewards[900] = 7.0, -3.0, np.nan
    above, below = columns(rewards, 100)
    assert len(above) == 100 and (above[50], below[50]) == (7.0, -3.0) and above[90] == 0
    assert len(columns(rewards[:10], 100)[0]) == 10 and ticks(0, 5) == [0]
    assert ticks(187, 5) == [0, 50, 100, 150, 187]


def test_pointing_at_the_strip_means_a_place(qtbot: QtBot, qapp: QApplication) -> None:
    strip = RewardStrip(Themes(qapp))
    qtbot.addWidget(strip)
    strip.resize(428, 112)
    strip.show_episode(None, 100)
    assert [strip.place_at(x) for x in (0, 14, 214, 414, 999)] == [0, 0, 50, 100, 100]


def test_a_player_waits_for_each_picture_loops_and_stops_at_the_end(qtbot: QtBot) -> None:
    player, wanted = Player(), []

    def go(place: int) -> None:
        wanted.append(place)
        player.stand_at(place)
        player.arrived()

    player.wanted.connect(go)
    player.play()
    assert not player.is_playing  # there is nothing to play
    player.set_length(5)
    player.set_speed(0.0)
    player.play()
    qtbot.waitUntil(lambda: not player.is_playing, timeout=10_000)
    assert wanted == [1, 2, 3, 4, 5]
    player.set_loops(True)
    player.play()
    qtbot.waitUntil(lambda: wanted.count(0) >= 2, timeout=10_000)
    player.pause()
    assert wanted[5:12] == [0, 1, 2, 3, 4, 5, 0]
