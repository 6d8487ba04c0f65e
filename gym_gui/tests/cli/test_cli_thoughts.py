"""What an agent with a mind thinks stands below the progress of its run."""

from __future__ import annotations

import pytest

from gym_gui.cli import format as fmt
from gym_gui.cli.commands.follow import LiveLine, PlainLines
from gym_gui.cli.live.thoughts import Thoughts, thought_of
from gym_gui.cli.progress import Part
from gym_gui.services.minds import MindAt
from mosaic_protocol.mind import Belief, Intention, Mind
from mosaic_protocol.proto import trainer_pb2 as pb


def test_a_thought_is_one_line_that_steers_no_terminal() -> None:
    mind = Mind(
        plan="reuse",
        confidence=0.914,
        beliefs=(Belief("policy", ("cached",)), Belief("said", ("\x1b[31m\nred",))),
        intentions=(Intention("!learn", "learn"), Intention("!!episode", "reuse")),
    )
    said = thought_of(MindAt("learner", 3, 17, 0, 1, mind))
    assert said.startswith("learner chose reuse, confidence 0.91 · intends !!episode, !learn · believes policy(")
    assert said.isprintable()


def test_runs_of_other_workers_have_none_and_are_not_asked() -> None:
    nobody: object = None
    run = pb.Run(run_id="R", state="EXEC", worker_type="cleanrl")
    assert Thoughts().of(nobody, run) == ""  # type: ignore[arg-type]


def test_a_terminal_has_a_second_line_for_as_long_as_there_is_something_to_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fmt, "terminal_width", lambda: 30)
    line = LiveLine()
    line.show("training", [Part("training")])
    line.show("training", [Part("training")], "learner chose explore, confidence 0.00")
    line.show("training", [Part("training")])
    line.close()
    first, second, third, last = [*capsys.readouterr().out.split("\rtraining")[1:], ""]
    assert first == "\x1b[K" and "\n" not in first
    assert second.startswith("\x1b[K\nlearner chose explore") and second.endswith("\x1b[K\x1b[1F")
    assert len(second.split("\n")[1].split("\x1b", maxsplit=1)[0]) < 30
    assert third == "\x1b[K\n\x1b[K\x1b[1F\r\x1b[K" and last == ""


def test_elsewhere_it_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines().show("training", [Part("training"), Part("10 steps")], "learner chose explore")
    assert capsys.readouterr().out == "training  10 steps\n  learner chose explore\n"
