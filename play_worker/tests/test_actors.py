"""What a person's keys become, by the clock and by turns; and the pace of steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_worker.errors import UsageError
from play_worker.actors import HumanActor, ScriptedActor, read_script
from play_worker.pace import Pace

KEYS = KeyMap((Binding(("left",), 0), Binding(("right",), 1), Binding(("left", "right"), 2)))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_by_turns_each_key_is_one_move() -> None:
    human = HumanActor(KEYS, waits=True)
    assert human.action(None) is None
    for key in ("left", "x", "right"):
        human.press(key)
    assert [human.action(None) for _ in range(3)] == [0, 1, None]
    human.hold(["left"])
    human.hold(["left"])
    human.hold(["left", "right"])
    assert [human.action(None) for _ in range(3)] == [0, 2, None]
    human.press("left")
    human.forget()
    assert human.action(None) is None


def test_by_turns_nobody_gets_far_ahead() -> None:
    human = HumanActor(KEYS, waits=True)
    for _ in range(100):
        human.press("left")
    human.press("right")
    moves = [human.action(None) for _ in range(9)]
    assert moves == [0] * 7 + [1, None]


def test_by_the_clock_held_keys_act_until_they_are_let_go() -> None:
    human = HumanActor(KEYS, waits=False)
    assert human.action(None) is None, "nothing was played yet"
    human.hold(["left"])
    assert [human.action(None) for _ in range(3)] == [0, 0, 0]
    human.hold(["left", "right"])
    assert human.action(None) == 2
    human.last = 1
    human.hold([])
    assert human.action(None) == 1, "the last action goes on"
    idle = HumanActor(KeyMap(KEYS.bindings, idle=7), waits=False)
    idle.last = 1
    assert idle.action(None) == 7


def test_by_the_clock_a_struck_key_counts_for_a_moment() -> None:
    clock = Clock()
    human = HumanActor(KeyMap(KEYS.bindings, idle=7), waits=False, clock=clock)
    human.press("left")
    assert human.action(None) == 0
    clock.now += 0.1
    human.press("right")
    assert human.action(None) == 2, "struck together"
    clock.now += 0.1
    assert human.action(None) == 1
    clock.now += 1
    assert human.action(None) == 7


def test_a_script_begins_again_with_each_episode_and_says_when_it_is_over(tmp_path: Path) -> None:
    file = tmp_path / "actions.json"
    file.write_text(json.dumps([1, 0]))
    actor = ScriptedActor(read_script(str(file)))
    assert [actor.action(None) for _ in range(2)] == [1, 0]
    actor.begin_episode(3)
    assert [actor.action(None) for _ in range(3)] == [1, 0, None]
    assert actor.failure == "the script has no more actions"
    for text, said in (("[]", "list of actions"), ("{", "not JSON"), ('{"a": 1}', "list of actions")):
        file.write_text(text)
        with pytest.raises(UsageError, match=said):
            read_script(str(file))
    with pytest.raises(UsageError, match="cannot be read"):
        read_script(str(tmp_path / "none"))


def test_steps_come_at_their_times_and_a_pause_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(fps=10, speed=2, clock=clock)
    assert pace.seconds_left == 0
    pace.stepped()
    assert pace.seconds_left == pytest.approx(0.05)
    clock.now += 0.06
    assert pace.seconds_left == 0
    pace.stepped()
    assert pace.seconds_left == pytest.approx(0.04), "a step that came late does not put off the next"
    clock.now += 60
    pace.stepped()
    assert pace.seconds_left == pytest.approx(0.05)
    pace.change(0)
    assert pace.seconds_left == 0
    pace.stepped()
    assert pace.seconds_left == 0
