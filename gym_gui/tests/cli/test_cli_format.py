"""Numbers, times and tables as people read them."""

from __future__ import annotations

import io
import sys

import pytest

from gym_gui.cli import format as fmt


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (60, "1m 00s"), (200, "3m 20s"), (7500, "2h 05m"), (273_600, "3d 4h"), (-5, "0s")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("past", "text"),
    [(0, "just now"), (-30, "just now"), (12, "12s ago"), (200, "3m ago"), (7300, "2h ago"), (3 * 86400, "3d ago")],
)
def test_a_moment_is_shown_by_how_long_it_is_past(past: float, text: str) -> None:
    assert fmt.ago(1_000_000.0 - past, now=1_000_000.0) == text


def test_a_moment_long_past_is_a_date_and_one_that_never_was_is_missing() -> None:
    assert fmt.ago(1_600_000_000.0, now=1_700_000_000.0) == "2020-09-13"
    assert fmt.ago(0.0) == fmt.MISSING


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (500.0, "500"),
        (0.0, "0"),
        (-0.0, "0"),
        (212.44, "212.4"),
        (1204551.7, "1,204,552"),
        (-18.512, "-18.51"),
        (0.00031, "0.00031"),
        (2.5e-7, "2.5e-07"),
        (-1.4e38, "-1.4e+38"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_a_quantity_keeps_the_digits_that_matter(value: float, text: str) -> None:
    assert fmt.quantity(value) == text


def test_sizes_counts_and_places_are_spoken() -> None:
    assert [fmt.size(count) for count in (940, 11_100, 81_800_000_000)] == ["940 B", "11.1 kB", "81.8 GB"]
    assert [fmt.counted(number, "run") for number in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]
    assert [fmt.ordinal(number) for number in (1, 2, 3, 11, 22, 113)] == ["1st", "2nd", "3rd", "11th", "22nd", "113th"]


def test_a_table_is_aligned_and_has_no_blanks_at_line_ends() -> None:
    text = fmt.table(["ID", "N", "NAME"], [["A", "10", "x"], ["BBB", "9", ""]], right=frozenset({"N"}))
    assert text.splitlines() == ["ID    N  NAME", "A    10  x", "BBB   9"]


def test_the_column_that_gives_way_is_cut_to_fit() -> None:
    text = fmt.table(["ID", "NAME", "STATE"], [["A", "n" * 40, "over"]], give_way="NAME", width=30)
    assert text.splitlines()[1] == f"A   {'n' * 18}…  over"
    assert max(map(len, text.splitlines())) <= 30


def test_wide_characters_take_two_columns() -> None:
    text = fmt.table(["NAME", "N"], [["走る", "1"], ["abcd", "2"]])
    assert text.splitlines()[1:] == ["走る  1", "abcd  2"]
    assert fmt.cut("走る走る", 5) == "走る…"


def test_text_of_others_cannot_move_the_cursor_or_break_the_line() -> None:
    assert fmt.one_line("boom\n\x1b[2J  at\tline 3\r") == "boom [2J at line 3"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_whose_owner_wants_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colored: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert "\x1b" not in fmt.painted("failed")
    monkeypatch.setattr(sys, "stdout", _Terminal())
    assert ("\x1b" in fmt.painted("failed")) is colored


def test_a_name_is_cut_in_the_middle_so_that_its_end_still_distinguishes_it() -> None:
    assert fmt.cut_in_the_middle("ppo-cartpole-v1-s3", 12) == "ppo-c…-v1-s3"
    assert fmt.cut_in_the_middle("short", 12) == "short"
    text = fmt.table(["NAME", "N"], [["ppo-cartpole-v1-s17", "1"]], give_way="NAME", in_the_middle=True, width=15)
    assert text.splitlines()[1] == "ppo-c…v1-s17  1"


def test_columns_say_less_before_the_name_is_cut_and_no_less_than_they_must() -> None:
    def shown(width: int) -> str:
        shorter: list[fmt.Shorter] = [("STEPS", ["132k/200k"]), ("STEPS", ["66%"]), ("AGE", None)]
        rows = [["ppo-s1", "132,000/200,000", "3m ago"]]
        return fmt.table(
            ["NAME", "STEPS", "AGE"], rows, shorter=shorter, give_way="NAME", in_the_middle=True, width=width
        ).splitlines()[1]

    assert shown(40) == "ppo-s1  132,000/200,000  3m ago"
    assert shown(26) == "ppo-s1  132k/200k  3m ago"
    assert shown(22) == "ppo-s1  66%    3m ago"
    assert shown(15) == "ppo-s1  66%"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (1000, "1k"), (12_800, "12.8k"), (132_001, "132k"), (999_999, "1M"), (1_500_000, "1.5M")],
)
def test_a_count_can_be_said_in_a_few_characters(number: int, text: str) -> None:
    assert fmt.compact(number) == text


def test_long_text_is_wrapped_between_words_and_hangs_below_itself() -> None:
    assert fmt.hanging("one two three /a/path/that/is/too/long four", 4, width=18).splitlines() == [
        "one two three",
        "    /a/path/that/is/too/long",
        "    four",
    ]
    assert fmt.hanging("one two three", 4) == "one two three", "there is no terminal"
