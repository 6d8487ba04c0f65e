"""What is said and counted of sessions, steps and episodes: no process, no window."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PyQt6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.play_sessions import MOST_SEATS
from gym_gui.ui.play import words
from gym_gui.ui.play.actors import (
    HUMAN,
    MODEL,
    MOST_PIECES,
    POLICY,
    UNKNOWN,
    ActorStripe,
    actor_colour,
    actor_title,
    stripe_words,
)
from gym_gui.ui.play.episodes_model import EPISODE, SEED, EpisodeRow, EpisodeTable
from gym_gui.ui.play.episodes_panel import _EpisodeView
from gym_gui.ui.play.live_stripe import LiveStripe
from gym_gui.ui.play.stage_grid import cells_of, is_map
from gym_gui.ui.play.stage_hud import Hud, chips
from gym_gui.ui.play.stage_stripe import length_of
from gym_gui.ui.play.steps_advice import MOST_BARS, bars_of
from gym_gui.ui.play.steps_chart import MOST_POINTS, ReturnCurve
from gym_gui.ui.play.steps_ring import StepRing
from gym_gui.ui.play.steps_table import WHO, StepTable, StepView
from gym_gui.ui.theme import DARK, Themes
from mosaic_protocol.events import TrainingStep
from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_protocol.live.messages import Hello, Round, SeatState, State
from play_worker import seating

KEYS = KeyMap((Binding(("left",), 0, "left"), Binding(("right", "space"), 1, "right")), idle=2, idle_label="nothing")
HELLO = Hello("CartPole-v1", "classic_control", KEYS, False, 50.0, {"gravity": -4.0, "wind": True})
WAITING = Hello("FrozenLake-v1", "toy_text", KEYS, True, 4.0, action_names=("left", "down", "right", "up"))


# ---- who acted ---------------------------------------------------------------------------------------------------


def test_a_language_model_looks_like_an_agent_and_not_like_nobody() -> None:
    assert actor_title(MODEL) == "the model"
    assert actor_colour(MODEL, DARK) == actor_colour(POLICY, DARK) != actor_colour(UNKNOWN, DARK)


def test_a_stripe_keeps_who_acted_in_order() -> None:
    stripe = ActorStripe()
    for actor, steps in ((POLICY, 30), (HUMAN, 1), (HUMAN, 9), (POLICY, 5)):
        stripe.add(actor, steps)
    assert stripe.pieces == [(POLICY, 30), (HUMAN, 10), (POLICY, 5)]
    assert stripe_words(stripe) == "the policy 35, you 10"


@pytest.mark.parametrize("steps", [1, 239, 240, 241, 10_000, 1_000_003])
def test_a_stripe_of_any_length_takes_bounded_room_and_counts_every_step(steps: int) -> None:
    stripe = ActorStripe()
    for number in range(1000):
        stripe.add((POLICY, HUMAN)[number % 2], steps // 1000 + (number < steps % 1000))
    assert stripe.steps == steps == sum(count for _, count in stripe.pieces) == stripe.counts.total()
    assert len(stripe.pieces) <= MOST_PIECES


@pytest.mark.parametrize("kept", [0, 3, 12, 40])
def test_undone_steps_are_cut_off(kept: int) -> None:
    stripe = ActorStripe()
    stripe.add(POLICY, 10)
    stripe.add(HUMAN, 20)
    stripe.cut(kept)
    expected = [(POLICY, min(kept, 10)), (HUMAN, min(kept - 10, 20))]
    assert stripe.steps == min(kept, 30)
    assert stripe.pieces == [(actor, count) for actor, count in expected if count > 0]


def test_a_cut_in_a_coarse_stripe_leaves_the_right_number() -> None:
    stripe = ActorStripe()
    stripe.add(POLICY, 1_000)
    stripe.add(HUMAN, 1)
    assert stripe.steps_a_piece > 1
    for kept in (1_000, 999, 501, 3):
        stripe.cut(kept)
        assert stripe.steps == kept == stripe.counts.total()


def test_steps_before_somebody_looked_have_no_actor() -> None:
    live = LiveStripe()
    assert live.take(State(episode=3, step=40, actor=POLICY)).pieces == [(UNKNOWN, 40)]
    assert live.take(State(episode=3, step=45, actor=HUMAN)).pieces == [(UNKNOWN, 40), (HUMAN, 5)]
    assert live.take(State(episode=3, step=43, actor=HUMAN)).pieces == [(UNKNOWN, 40), (HUMAN, 3)], "undone"
    assert live.take(State(episode=4, step=2, actor=POLICY)).pieces == [(POLICY, 2)], "this one was seen to begin"


def test_who_takes_the_seat_has_not_made_the_last_step() -> None:
    live, curve = LiveStripe(), ReturnCurve()
    handed = State(episode=1, step=4, total=4.0, actor=HUMAN, acted=POLICY, action="down", advice=(0.1, 0.2, 0.3, 0.4))
    live.take(State(episode=0, actor=POLICY))
    assert live.take(handed).pieces == [(POLICY, 4)], "also where the states before were passed over"
    assert not any(bar.chosen for bar in bars_of(WAITING, handed))
    curve.add(1, 3, 3.0, POLICY)
    curve.add(1, 4, 4.0, HUMAN)
    assert not curve.add(1, 3, 3.0, HUMAN) and curve.points == [(3, 3.0, POLICY)], "undone down to the policy's step"


@pytest.mark.parametrize(("steps", "whole"), [(0, 50), (50, 50), (51, 100), (101, 200), (450, 500), (700, 1000)])
def test_the_stripe_of_a_growing_episode_has_room_ahead(steps: int, whole: int) -> None:
    assert length_of(steps) == whole


# ---- words -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "ended", "total", "word", "colour"),
    [
        ("CartPole-v1", "terminated", 12.0, "fell", "bad"),
        ("CartPole-v1", "truncated", 500.0, "balanced", "good"),
        ("FrozenLake-v1", "terminated", 1.0, "goal", "good"),
        ("FrozenLake-v1", "terminated", 0.0, "lost", "bad"),
        ("minigrid:MiniGrid-Empty-5x5-v0", "terminated", 0.9, "goal", "good"),
        ("My-v0", "terminated", 3.0, "ended", "idle"),
        ("My-v0", "truncated", None, "out of time", "warning"),
        ("My-v0", "", 3.0, "stopped", "idle"),
    ],
)
def test_how_an_episode_ended(env_id: str, ended: str, total: float | None, word: str, colour: str) -> None:
    said = words.outcome(env_id, ended, total)
    assert (said.word, said.colour) == (word, colour)


@pytest.mark.parametrize(
    ("hello", "state", "word", "part"),
    [
        (None, State(), "starting", "being started"),
        (HELLO, State(waiting=True), "your turn", "A key begins."),
        (WAITING, State(waiting=True), "your turn", "Your move."),
        (HELLO, State(paused=True), "paused", "Paused."),
        (HELLO, State(paused=True, held=True), "held", "run is paused"),
        (HELLO, State(loading="/x/ppo-7/checkpoints"), "playing", "ppo-7 is being loaded; you play on."),
        (HELLO, State(loading="/x/ppo-7/checkpoints/step-000000050000"), "playing", "ppo-7 at step 50,000 is being"),
        (HELLO, State(over="terminated", total=9.0), "fell", "return +9; any key begins the next episode."),
        (HELLO, State(over="truncated", total=500.0, actor=POLICY), "balanced", "the next episode begins."),
        (HELLO, State(over="truncated", actor=POLICY, paused=True), "balanced", "Go (P) begins the next episode."),
        (HELLO, State(problem="the policy\ndied"), "playing", "the policy died"),
        (HELLO, State(actor=POLICY), "playing", ""),
    ],
)
def test_the_most_important_thing_is_said(hello: Hello | None, state: State, word: str, part: str) -> None:
    said = words.situation(hello, state)
    assert said.word == word and part in said.sentence


def test_a_session_that_is_gone_or_over_says_so_whatever_its_last_state_was() -> None:
    assert words.situation(HELLO, State(waiting=True), joined=False).word == "disconnected"
    over = words.situation(HELLO, State(waiting=True), "The session ended.", joined=False)
    assert (over.word, over.sentence) == ("ended", "The session ended.")


def test_the_line_below_the_title_names_seed_settings_and_policy() -> None:
    told = words.about(HELLO, State(seed=42, advisor="/a/b"), lambda place: f"<{place}>")
    assert told == "seed 42 · gravity -4 · wind on · with </a/b>"


def test_seats_are_told_how_many_rounds_each_won() -> None:
    seats = (SeatState("you"), SeatState("ppo"))
    totals: list[tuple[float | None, float | None]] = [(1.0, 0.0), (0.0, 2.0), (None, 1.0), (3.0, 3.0)]
    rounds = tuple(Round(seed, both, (1, 1)) for seed, both in enumerate(totals))
    assert words.rounds_won(State(seats=seats, rounds=rounds)) == "won of 4 rounds: you 1, ppo 2", "a draw is nobody's"
    assert words.rounds_won(State(rounds=rounds)) == words.rounds_won(State(seats=seats)) == ""


@pytest.mark.parametrize(
    ("action", "said"), [(0, "left"), (2, "right"), (9, "9"), ([0.25, -1.0], "[0.25, -1]"), (None, "–")]
)
def test_an_action_is_said_in_the_words_of_the_game(action: object, said: str) -> None:
    assert words.action_words(action, WAITING) == said
    assert words.action_words(1, HELLO) == "right" and words.action_words(1, None) == "1"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0.0, "0"), (1.5, "+1.5"), (-1.0842, "−1.084"), (12345.6, "+12,346"), (None, "–"), (float("nan"), "–")],
)
def test_numbers_have_their_sign(number: float | None, said: str) -> None:
    assert words.signed(number) == said


def test_keys_are_told_with_what_they_do() -> None:
    assert words.keys_in_words(KEYS) == [("←", "left"), ("→+Space", "right"), ("none", "nothing")]


def test_the_chips_say_who_acts_and_how_it_goes() -> None:
    left, right = chips(State(step=143, total=100.1, actor=HUMAN), 0.25)
    assert [chip.text for chip in (*left, *right)] == ["REC", "You", "143", "+100.1", "¼×"]
    named, _ = chips(SeatState("seat-2", actor=POLICY), None, policy="ppo-cartpole-v1-s5 at step 8,000")
    assert named[1].text == "…ole-v1-s5 at step 8,000" and named[1].actor == POLICY, "which of several it is"
    left, right = chips(SeatState("ppo", step=3, actor=POLICY), None)
    assert [chip.text for chip in (*left, *right)] == ["ppo", "The policy", "3", "0"]


def test_the_name_of_a_policy_gives_way_to_what_its_seat_returned(qtbot: QtBot) -> None:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    page = QWidget()
    qtbot.addWidget(page)
    hud = Hud(Themes(app), page)
    seat = SeatState("seat-2", step=143, total=100.0, actor=POLICY)
    hud.show_chips(*chips(seat, None, policy="ppo-cartpole-v1-s5 at step 8,000"))
    shown = {}
    for width in (900, 330, 245):
        hud.resize(width, 300)
        shown[width] = [chip.text for side in hud._fitting() for chip in side]
        assert sum(hud._width(chip) for side in hud._fitting() for chip in side) < width
    assert shown[900] == ["seat-2", "…ole-v1-s5 at step 8,000", "143", "+100"]
    for width in (330, 245):
        policy, total = shown[width][-2:]
        assert total == "+100" and policy.startswith("…") and policy.endswith(" 8,000")
    assert shown[330][0] == "seat-2"


def test_seats_are_told_apart_in_both_tables(qtbot: QtBot) -> None:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    page, themes = QWidget(), Themes(app)
    qtbot.addWidget(page)
    episodes = EpisodeTable(page)
    view = _EpisodeView(episodes, themes)
    view.setParent(page)
    said = words.outcome("CartPole-v1", "truncated", 500.0)
    first, second = (EpisodeRow(1234 + one, 1476577811, 500, 500.0, said, f"seat-{one + 1}") for one in range(2))
    episodes.add([first])
    alone = view.columnWidth(EPISODE)
    assert episodes.data(episodes.index(0, EPISODE)) == "1234", "there is nobody else"
    assert view.columnWidth(SEED) > view.fontMetrics().horizontalAdvance("1476577811")
    episodes.add([second])
    assert episodes.data(episodes.index(0, EPISODE)) == "1235 · seat-2"
    assert view.columnWidth(EPISODE) > max(alone, view.fontMetrics().horizontalAdvance("1235 · seat-2"))

    ring = StepRing()
    steps = StepTable(ring, themes, str, page)
    rows = StepView(steps, page)
    ring.add([TrainingStep(episode=0, step=0, agent_id="seat-1", action=1, actor=POLICY)])
    steps.refresh()
    alone = rows.columnWidth(WHO)
    assert not steps.data(steps.index(0, WHO))
    ring.add([TrainingStep(episode=1, step=1, agent_id="seat-2", action=1, actor=POLICY)])
    steps.refresh()
    assert rows.columnWidth(WHO) > alone + rows.fontMetrics().horizontalAdvance("seat-2")


# ---- the grid ----------------------------------------------------------------------------------------------------


def test_a_map_is_read_from_what_a_terminal_would_show() -> None:
    rows = cells_of("  (Right)\nS\x1b[41mF\x1b[0mFF\nFHFH\nFFFH\nHFFG\n")
    assert is_map(rows) and [len(row) for row in rows] == [4, 4, 4, 4]
    assert [(cell.text, cell.ground) for cell in rows[0]] == [("S", None), ("F", 1), ("F", None), ("F", None)]


def test_any_other_drawing_keeps_its_characters_and_obeys_nothing() -> None:
    rows = cells_of("+---+\n|\x1b[34;1mR\x1b[0m\x1b[43m:\x1b[0m\x07|\n+---+\n  (South)\n")
    assert not is_map(rows) and len(rows) == 3
    assert (rows[1][1].text, rows[1][1].ink, rows[1][2].ground) == ("R", 4, 3)
    assert all(cell.text.isprintable() for row in rows for cell in row)
    assert cells_of("") == [[]] or cells_of("") == []


# ---- steps -------------------------------------------------------------------------------------------------------


def step(number: int, episode: int = 0, actor: str = HUMAN, **fields: object) -> TrainingStep:
    return TrainingStep(episode=episode, step=number, actor=actor, **fields)  # type: ignore[arg-type]


def test_the_ring_keeps_the_newest_steps_and_counts_all() -> None:
    ring = StepRing(most=100)
    for first in range(0, 50_000, 1000):
        ring.add([step(number) for number in range(first, first + 1000)])
    assert ring.taken == 50_000
    assert [row.step for row in ring.rows] == list(range(49_900, 50_000))


def test_steps_are_counted_in_their_episode_as_long_as_its_beginning_was_seen() -> None:
    ring = StepRing()
    episodes = [0, 0, 0, 1, 1]
    rows = ring.add([step(number, episode) for number, episode in enumerate(episodes)])
    assert [row.number for row in rows] == [1, 2, 3, 1, 2]
    late = StepRing()
    rows = late.add([step(90, 7), step(91, 7), step(92, 8)])
    assert [row.number for row in rows] == [None, None, 1]
    rows = late.add([step(200, 8), step(201, 8), step(202, 9)])
    assert [row.number for row in rows] == [None, None, 1], "what was left out ends the counting"


def test_agents_that_play_beside_each_other_count_their_own_steps() -> None:
    ring = StepRing()
    rows = ring.add([step(number, agent_id="ab"[number % 2]) for number in range(6)])
    assert [row.number for row in rows if row.agent == "a"] == [1, 2, 3]


def test_a_step_is_marked_where_the_person_and_the_policy_chose_differently() -> None:
    ring = StepRing()
    rows = ring.add([step(0, value=1.0), step(1, value=1.0, info={"advised": 1}), step(2)])
    assert [row.differs for row in rows] == [False, True, False] and rows[1].advised == 1
    assert (ring.judged, ring.differing) == (2, 1), "of the third nothing is known"
    (row,) = ring.add([step(3, actor=POLICY, value=2.0)])
    assert not row.differs and ring.judged == 2, "a policy does not differ from itself"


def test_steps_that_were_undone_are_marked_and_counted_again() -> None:
    ring = StepRing()
    ring.add([step(0), step(1, agent_id="b"), step(2), step(3)])
    rows = ring.add([step(4, info={"undone": 2}), step(5)])
    assert [row.undone for row in ring.rows] == [False, False, True, True, False, False]
    assert [row.number for row in rows] == [2, 3]
    ring.add([step(6, info={"undone": 99})])
    assert [row.undone for row in ring.rows if row.agent == ""] == [True] * 5 + [False], "no more than there are"


def test_rewards_that_are_no_numbers_are_told_as_none() -> None:
    (row,) = StepRing().add([step(0, reward=float("nan"), value=float("inf"))])
    assert row.reward is None and row.value is None


def test_the_return_is_drawn_in_the_colours_of_who_acted() -> None:
    curve = ReturnCurve()
    for number, actor in enumerate((POLICY, POLICY, HUMAN, HUMAN, POLICY)):
        curve.add(0, number, float(number), actor)
    pieces = curve.pieces()
    assert set(pieces) == {POLICY, HUMAN}
    steps, totals = pieces[HUMAN]
    assert steps.tolist() == [0, 1, 2, 3, 4]
    assert np.isnan(totals).tolist() == [True, False, False, False, True], "it begins where the policy's part ends"


def test_a_curve_is_bounded_takes_back_what_was_undone_and_begins_again() -> None:
    curve = ReturnCurve()
    for number in range(20_000):
        assert curve.add(0, number, 1.0, POLICY)
    steps = [number for number, _, _ in curve.points]
    assert len(steps) <= MOST_POINTS and steps[-1] == 19_999 and all(a < b for a, b in pairwise(steps))
    assert curve.add(0, 19_990, 0.5, HUMAN) and curve.points[-1] == (19_990, 0.5, HUMAN)
    assert not curve.add(0, 19_990, 0.5, HUMAN), "nothing new"
    assert curve.add(1, 0, 0.0, HUMAN) and curve.points == [(0, 0.0, HUMAN)]
    assert not curve.add(1, 1, None, HUMAN)


def test_bars_show_probabilities_as_they_are_and_values_by_their_spread() -> None:
    state = State(advice=(0.1, 0.2, 0.7, 0.0), advice_kind="probability", prefers="right", action="down", actor=HUMAN)
    bars = bars_of(WAITING, state)
    assert [bar.name for bar in bars] == ["left", "down", "right", "up"]
    assert [round(bar.share, 2) for bar in bars] == [0.1, 0.2, 0.7, 0.0]
    assert [bar.preferred for bar in bars] == [False, False, True, False]
    assert [bar.chosen for bar in bars] == [False, True, False, False]
    valued = bars_of(WAITING, State(advice=(-10.0, 0.0, -5.0, -5.0), advice_kind="value", actor=POLICY))
    assert [bar.share for bar in valued] == [0.0, 1.0, 0.5, 0.5] and valued[0].number == "−10"
    assert valued[1].preferred and not any(bar.chosen for bar in valued)
    assert bars_of(WAITING, State()) == []


def test_of_very_many_actions_the_most_promising_are_shown() -> None:
    advice = tuple(number / 100 for number in range(18))
    bars = bars_of(HELLO, State(advice=advice, advice_kind="probability", prefers="17"))
    assert len(bars) == MOST_BARS and bars[-1].name == "17" and bars[-1].preferred


def test_of_several_seats_the_persons_is_told() -> None:
    seats = (SeatState("seat-1", actor=POLICY), SeatState("seat-2", actor=HUMAN, loading="somewhere"))
    own = words.own_seat(State(actor=POLICY, seats=seats, seed=3))
    assert (own.actor, own.loading, own.seed) == (HUMAN, "somewhere", 3)
    alone = State(actor=POLICY)
    assert words.own_seat(alone) is alone


def test_the_panel_offers_as_many_seats_as_a_session_has() -> None:
    assert seating.MOST_SEATS == MOST_SEATS


def test_steps_that_come_after_the_live_picture_go_on_from_it() -> None:
    """A session that ends leaves its last steps to be read from the store."""
    curve = ReturnCurve()
    for step in range(1, 389):
        curve.add(4, step, float(step), POLICY)
    for step in (387, 388, 389, 390):
        curve.add_reward(4, step, 1.0, POLICY)
    assert [point[:2] for point in curve.points[-3:]] == [(388, 388.0), (389, 389.0), (390, 390.0)]
    assert not curve.add_reward(4, 400, 1.0, POLICY), "what lies between is not known"
    assert not curve.add_reward(5, 7, 1.0, POLICY) and curve.points == []
    assert curve.add_reward(5, 1, 0.5, HUMAN) and curve.add_reward(5, 2, None, HUMAN) is False
    assert not curve.add_reward(5, 3, 1.0, HUMAN) and curve.points == [(1, 0.5, HUMAN)]
