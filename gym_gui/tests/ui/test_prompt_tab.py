"""What a language model was asked: live in the Prompts tab, and with each step of a replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from gym_gui.services.replay.episode_record import EpisodeRecord
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.workers.llm.prompt_tab import PromptTab
from mosaic_protocol.dialogue import DIALOGUE, Exchange, Message, recorded
from mosaic_protocol.live.messages import State
from mosaic_protocol.mind import GIVE_BACK, TAKE_OVER, AgentMind
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode

RUN_ID = "01K9ZQ3V7X0000000000000000"
ASKED = Exchange(
    (Message("system", "Your actions: left, right."), Message("user", "You are here. \x1b]0;owned\x07")),
    response="<action>left</action>",
    reasoning="why not",
    action="left",
    rung="tagged",
    source="server",
    tokens_in=12,
    tokens_out=3,
    is_estimated=True,
    note="the plan was given up",
)


def test_the_presenter_puts_prompts_in_front_of_a_hybrid_lane() -> None:
    presenter = default_presenters().presenter_for("llm")
    assert [tab.name for tab in presenter.bootstrap_live_tabs()] == ["prompts", "steps", "live"]


def test_a_prompt_is_shown_as_it_comes_and_a_person_takes_over(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = PromptTab(make_cockpit().window.cockpit, RUN_ID)
    qtbot.addWidget(tab)
    assert tab.prompt.toPlainText() == ""
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tab.feed, "tell", lambda *words: told.append(words))
    mind = AgentMind("model", exchange=ASKED, choices=("left", "right"), strategy={"calls": 1234.0})
    tab.feed._take(State(mind=(mind,)))
    assert "Your actions: left, right." in tab.prompt.toPlainText()
    assert "\x1b" not in tab.prompt.toPlainText()
    assert "why not" in tab.answer.toPlainText() and "<action>left</action>" in tab.answer.toPlainText()
    assert "~12 + ~3 tokens" in tab.facts.text() and "1,234 calls" in tab.facts.text()
    assert "given up" in tab.note.text()
    tab._change_seat()
    tab.choice.setCurrentText("right")
    tab._tell(tab.choice.currentText())
    tab.feed._take(State(mind=(msgspec.structs.replace(mind, is_held=True),)))
    assert tab.seat.text() == "Give back"
    tab._change_seat()
    tab.hint.setText("mind the hole")
    tab._tell_hint()
    assert told == [(TAKE_OVER, "goal"), ("right", "goal"), (GIVE_BACK, "goal"), ("mind the hole", "belief")]
    tab.close_tab()


def test_a_person_who_took_over_sees_what_there_is_to_decide(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    tab = PromptTab(make_cockpit().window.cockpit, RUN_ID)
    qtbot.addWidget(tab)
    tab.resize(300, 300)
    tab.show()
    long = msgspec.structs.replace(ASKED, prompt=(Message("user", "older\n" * 200), Message("user", "the newest")))
    tab.feed._take(State(mind=(AgentMind("model", exchange=long, choices=("left", "right")),)))
    bar = tab.prompt.verticalScrollBar()
    assert bar is not None
    assert bar.value() == bar.maximum() > 0, "the newest question is at the end"
    bar.setValue(3)
    waits = Exchange((*long.prompt, Message("user", "and now?")), validity="person")
    tab.feed._take(State(mind=(AgentMind("model", exchange=waits, choices=("left", "right"), is_held=True),)))
    assert "and now?" in tab.prompt.toPlainText()
    assert "The run waits for you" in tab.answer.toPlainText()
    assert "played by a person" not in tab.facts.text()
    assert bar.value() == 3, "who reads further up is left there"
    tab.close_tab()


def test_a_replay_has_the_prompt_of_each_step() -> None:
    known: set[str] = set()
    second = msgspec.structs.replace(ASKED, prompt=(ASKED.prompt[0], Message("user", "further")))

    extras = {n: {DIALOGUE: msgspec.to_builtins(recorded(one, known))} for n, one in enumerate((ASKED, second))}
    record = EpisodeRecord.__new__(EpisodeRecord)
    record.episode = RecordedEpisode(0, extras=extras)
    found = record.dialogue(1)
    assert found is not None
    assert [one.text for one in found.prompt] == ["Your actions: left, right.", "further"]
    assert record.dialogue(2) is None
