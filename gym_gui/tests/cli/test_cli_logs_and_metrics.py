"""Lines that stay whole and come once, and curves that fit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.cli.commands.logs import LinePrinter
from gym_gui.cli.commands.metrics import sparkline


@pytest.fixture
def printed(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[[], bytes]:
    return lambda: capsysbinary.readouterr().out


def test_sources_do_not_break_into_each_others_lines(printed: Callable[[], bytes]) -> None:
    printer = LinePrinter()
    printer.take("stdout", b"one li")
    printer.take("stderr", b"warn")
    printer.take("stdout", b"ne\ntwo")
    printer.take("stderr", b"ing\n")
    printer.close()
    assert printed() == b"one line\nwarning\ntwo\n"


def test_what_was_printed_is_passed_over_when_all_comes_again(printed: Callable[[], bytes]) -> None:
    printer = LinePrinter()
    printer.take("stdout", b"one\ntwo\nthr")
    printer.begin_again()
    printer.take("stdout", b"one\n")
    printer.begin_again()
    printer.take("stdout", b"one\ntwo\nthree\nfo")
    printer.take("stdout", b"ur\n")
    printer.close()
    assert printed() == b"one\ntwo\nthree\nfour\n"


def test_progress_bars_are_shown_while_they_move(printed: Callable[[], bytes]) -> None:
    printer = LinePrinter()
    printer.take("stderr", b"10%\r20%")
    assert printed() == b"10%\r"


def test_with_json_every_line_is_an_object(printed: Callable[[], bytes]) -> None:
    printer = LinePrinter(as_json=True)
    printer.take("stdout", b"one\n\xff\ntw")
    printer.close()
    lines = printed().decode().splitlines()
    assert lines[0] == '{"source": "stdout", "line": "one"}'
    assert len(lines) == 3


def test_a_curve_shows_low_and_high_as_they_come() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([7, 0]) == "█▁"
    assert sparkline([3, 3, 3]) == "▅▅▅"
    assert sparkline([1, math.nan, 2]) == "▁ █"
    assert sparkline([]) == sparkline([math.nan]) == ""


def test_a_long_series_is_shown_by_the_means_of_its_shares() -> None:
    assert sparkline([0.0] * 500 + [1.0] * 500, columns=4) == "▁▁██"


@given(st.lists(st.floats(), max_size=200), st.integers(1, 40))
def test_a_curve_always_fits(values: list[float], columns: int) -> None:
    assert len(sparkline(values, columns)) <= min(columns, len(values))
