"""Fields of a form without a window: what an entry stands for, and what is said about one that cannot be taken."""

from __future__ import annotations

import pytest

from gym_gui.ui.forms.field_spec import FieldError, FieldSpec, from_flag, from_schema
from mosaic_protocol.settings_schema import problems_with


def field(**described: object) -> FieldSpec:
    (spec,) = from_schema({"properties": {"it": described}})
    return spec


def test_a_choice_stands_for_the_value_that_the_schema_lists() -> None:
    lanes = field(type="integer", enum=[1, 2, 4], default=2)
    assert (lanes.choices, lanes.start) == (("1", "2", "4"), "2")
    chosen = lanes.read(lanes.start)
    assert (chosen, type(chosen)) == (2, int)
    assert not list(problems_with({"it": chosen}, {"properties": {"it": {"type": "integer", "enum": [1, 2, 4]}}}, ""))
    assert (lanes.differs("2"), lanes.differs("4")) == (False, True)
    assert field(type="number", enum=[0.5, 1.0], default=1).start == "1.0", "as the list writes it"
    flag = from_flag({"name": "lanes", "type": "Literal[1, 2]", "default": 1, "choices": [1, 2]})
    assert flag.read("2") == 2


def test_nothing_is_a_choice_where_the_schema_lists_it() -> None:
    colour = field(enum=["red", None])
    assert (colour.choices, colour.optional, colour.read("")) == (("red",), True, None)


def test_a_switch_that_may_be_unset_is_a_choice_of_three() -> None:
    slippery = field(type=["boolean", "null"], default=None)
    assert (slippery.kind, slippery.choices, slippery.start) == ("choice", ("yes", "no"), "")
    assert (slippery.read("no"), slippery.read("yes"), slippery.read("")) == (False, True, None)
    assert slippery.differs("no") and slippery.shown(False) == "no" and not slippery.differs("")


@pytest.mark.parametrize(
    ("bounds", "entry", "sentence"),
    [
        ({"maximum": 0.5}, "0.6", "must be at most 0.5"),
        ({"maximum": 1_234_567}, "2e6", "must be at most 1,234,567"),
        ({"minimum": 1e-7}, "0", "must be at least 1e-07"),
        ({"minimum": 1_234_567}, "5", "must be at least 1,234,567"),
    ],
)
def test_a_bound_is_named_as_it_is(bounds: dict[str, float], entry: str, sentence: str) -> None:
    with pytest.raises(FieldError) as refused:
        field(type="number", **bounds).read(entry)
    assert str(refused.value) == sentence
    (problem,) = problems_with({"it": float(entry)}, {"properties": {"it": {"type": "number", **bounds}}}, "")
    assert problem.message == sentence, "the daemon says the same"
