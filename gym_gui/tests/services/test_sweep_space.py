"""The space file: what it says is searched, and what it says wrongly is refused with file, line and setting."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.services.sweeps.space import Dimension, SpaceError, grid_point, grid_points, read_space

FLAGS: list[dict[str, Any]] = [
    {"name": "learning_rate", "type": "float", "choices": []},
    {"name": "num_steps", "type": "int", "choices": []},
    {"name": "anneal_lr", "type": "bool", "choices": []},
    {"name": "mode", "type": "str", "choices": ["slow", "fast"]},
    {"name": "size", "type": "a whole number", "choices": []},
    {"name": "height", "type": "a number", "choices": []},
    {"name": "target_kl", "type": "float | None", "choices": []},
]


def test_ranges_lists_and_fixed_values_are_read() -> None:
    space = read_space(
        """
        learning-rate = { low = 1e-5, high = 1e-2, log = true }
        num_steps = { low = 8, high = 64, step = 8 }
        mode = ["slow", "fast"]
        anneal_lr = false
        height = { low = 1, high = 2 }
        [target_kl]
        choices = [0.1, 0.2]
        """,
        "sweep.toml",
        FLAGS,
    )
    assert space.searched == {
        "learning_rate": Dimension("float", 1e-5, 1e-2, log=True),
        "num_steps": Dimension("int", 8, 64, step=8),
        "mode": Dimension("choice", choices=("slow", "fast")),
        "height": Dimension("float", 1, 2),
        "target_kl": Dimension("choice", choices=(0.1, 0.2)),
    }
    assert space.fixed == {"anneal_lr": False}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "learning_rat = [1.0, 2.0]",
            "s.toml, line 1: learning_rat is not a setting of the script; did you mean 'learn",
        ),
        ("\n[learning_rate]\nlow = 1.0\nhigh = 0.5", "s.toml, line 2: learning_rate is empty (low 1.0, high 0.5)"),
        ("learning_rate = { low = 1.0, high = 1.0 }", "has one value only: write it as a fixed value"),
        (
            "learning_rate = { low = 0.0, high = 1.0, log = true }",
            "logarithmic range through zero: low must be above 0",
        ),
        ("learning_rate = { low = -1e-3, high = 1.0, log = true }", "logarithmic range through zero"),
        ("learning_rate = { low = 1.0 }", "has no high: a range needs low and high"),
        ("learning_rate = { low = 1.0, hihg = 2.0 }", "has the key 'hihg'; did you mean 'high'?"),
        ("learning_rate = { low = 'a', high = 2.0 }", "has a low that is no number"),
        ("learning_rate = { low = true, high = 2.0 }", "has a low that is no number"),
        ("learning_rate = { low = 0.0, high = inf }", "must be a finite number"),
        ("learning_rate = { low = 1.0, high = 2.0, step = 5.0 }", "has a step that does not fit into the range"),
        ("learning_rate = { low = 1.0, high = 2.0, step = -1.0 }", "has a step that does not fit into the range"),
        ("learning_rate = { low = 1.0, high = 2.0, log = 1 }", "has a log that is neither true nor false"),
        ("learning_rate = { low = 1.0, high = 2.0, step = 0.1, log = true }", "a step in a logarithmic range"),
        ("learning_rate = { choices = [1.0], low = 1.0 }", "has choices and a range"),
        ("num_steps = { low = 1.0, high = 64 }", "takes whole numbers: write low, high and step without a point"),
        ("num_steps = [1.5]", "takes whole numbers, not 1.5"),
        ("anneal_lr = { low = 0, high = 1 }", "takes true or false, which has no ranges"),
        ("anneal_lr = [0, 1]", "takes true or false, not 0"),
        ("mode = ['slow', 'fats']", "does not take 'fats'; did you mean 'fast'?"),
        ("size = { low = 1.0, high = 2.0 }", "takes whole numbers: write low"),
        ("size = ['a']", "takes whole numbers, not 'a'"),
        ("mode = []", "has an empty list of values"),
        ("mode = ['slow', 'slow']", "has a value twice"),
        ("mode = [1979-05-27]", "has a value that is no number, text or switch"),
        ("learning_rate = 0.1", "s.toml has nothing to search: give at least one range or list of values"),
        ("", "has nothing to search"),
        ("seed = [1, 2]", "seed cannot be searched: seeds are given with --seeds"),
        ("total_timesteps = [1, 2]", "every trial has the same number of steps"),
        ("learning_rate = [", "s.toml is not TOML"),
        ("learning_rate = 1\nlearning-rate = 2", "line 2: learning-rate is given twice"),
    ],
)
def test_what_is_wrong_is_refused_in_one_sentence_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(SpaceError) as refused:
        read_space(text, "s.toml", FLAGS)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("s.toml")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SpaceError):  # and nothing else
        read_space(text, "s.toml", FLAGS)


@pytest.mark.parametrize(
    "bad",
    [
        Dimension("choice"),
        Dimension("float", 1.0, 1.0),
        Dimension("float", 0.0, 1.0, log=True),
        Dimension("float", 0.0, float("inf")),
        Dimension("int", 1, 5, step=0.0),
        Dimension("int", 1, 5, step=9),
    ],
)
def test_what_a_program_sends_is_judged_too(bad: Dimension) -> None:
    assert not bad.is_sound
    assert Dimension("int", 1, 5, step=2).is_sound


def test_a_grid_counts_every_combination_and_needs_steps() -> None:
    space = {"a": Dimension("int", 1, 5, step=2), "b": Dimension("float", 0.0, 1.0, step=0.25)}
    points = [grid_point(space, place) for place in range(grid_points(space))]
    assert len(points) == 15 == len({tuple(point.values()) for point in points})
    assert points[0] == {"a": 1, "b": 0.0}
    assert points[-1] == {"a": 5, "b": 1.0}
    with pytest.raises(SpaceError, match="c has no fixed number of values: give it a step"):
        grid_points({"c": Dimension("float", 0.0, 1.0)})
    with pytest.raises(SpaceError, match="d has 1,000,000,000 values"):
        grid_points({"d": Dimension("int", 1, 1e9)})
