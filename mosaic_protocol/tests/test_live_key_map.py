"""Which keys mean which action: combinations before single keys, the last one pressed before earlier ones."""

from __future__ import annotations

import pytest

from mosaic_protocol.live.key_map import Binding, KeyMap, KeyMapError

CHOICES = KeyMap(
    (
        Binding(("left",), 1, "left"),
        Binding(("right",), 2, "right"),
        Binding(("space",), 3, "fire"),
        Binding(("left", "space"), 4, "left fire"),
    ),
    idle=0,
    idle_label="nothing",
)
SUMS = KeyMap(
    (Binding(("left",), [-1.0, 0.0]), Binding(("right",), [1.0, 0.0]), Binding(("up",), [0.0, 0.5])), adds=True
)


@pytest.mark.parametrize(
    ("held", "action"),
    [
        ([], None),
        (["x"], None),
        (["left"], 1),
        (["left", "right"], 2),
        (["right", "left"], 1),
        (["left", "space"], 4),
        (["space", "left", "right"], 4),
    ],
)
def test_held_keys_combine(held: list[str], action: int | None) -> None:
    assert CHOICES.action_for(held) == action


def test_contributions_add_up_and_idle_values_hold_where_no_key_is() -> None:
    assert SUMS.action_for(["left", "up"]) == [-1.0, 0.5]
    assert SUMS.action_for(["left", "right", "up"]) == [0.0, 0.5]
    braking = KeyMap((Binding(("left",), [-1.0, 0.0]),), adds=True, idle=[0.0, -0.5])
    assert braking.action_for(["left"]) == [-1.0, -0.5]


def test_keys_can_be_changed_and_keep_the_words_of_their_action() -> None:
    changed = CHOICES.changed({"a": 1, "left": 2, "A+Space": 4})
    assert changed.action_for(["a"]) == 1
    assert changed.action_for(["left"]) == 2
    assert changed.action_for(["a", "space"]) == 4
    assert {one.keys: one.label for one in changed.bindings}[("a",)] == "left"
    assert CHOICES.action_for(["left"]) == 1, "the table stays as it is"
    with pytest.raises(KeyMapError, match="there is no key 'ctrl'"):
        CHOICES.changed({"ctrl": 1})


def test_an_action_has_words() -> None:
    assert (CHOICES.label_of(3), CHOICES.label_of(0), CHOICES.label_of(9)) == ("fire", "nothing", "")
