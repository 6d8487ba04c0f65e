"""Statistics and the page: what the figures mean must not depend on who reads them."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.report import (
    Line,
    Section,
    Target,
    chosen,
    exit_status,
    figure,
    interleaved,
    page,
    percentile,
    ratios,
)


def section(*lines: Line, problem: str = "") -> Section:
    return Section("walking", "How fast we walk", "Feet on a floor.", lines, problem)


def speed(*values: float, bound: float = 0.98) -> Line:
    return Line("Speed", values, target=Target("≥", bound))


@pytest.mark.parametrize(
    ("relation", "value", "reached"),
    [("≥", 2.0, True), ("≥", 1.9, False), ("≤", 2.0, True), ("≤", 2.1, False), ("<", 2.0, False), (">", 2.0, False)],
)
def test_a_bound_itself_is_reached_only_where_the_relation_includes_it(
    relation: str, value: float, reached: bool
) -> None:
    assert Target(relation, 2.0).is_reached(value) is reached


@pytest.mark.parametrize("relation", ["≥", "≤", "<", ">"])
def test_a_figure_that_is_not_a_number_reaches_no_target(relation: str) -> None:
    assert not Target(relation, 1.0).is_reached(math.nan)


def test_a_line_is_judged_by_its_median_not_by_its_best_or_mean() -> None:
    assert speed(0.1, 0.99, 1.0).verdict == "pass"
    assert speed(0.9, 0.97, 5.0).verdict == "**short**"


def test_over_seeds_the_mean_counts_and_the_deviation_is_shown() -> None:
    line = Line("Return", [500.0, 500.0, 440.0], target=Target("≥", 485), over_seeds=True)
    assert line.verdict == "**short**", "one seed that failed is no disturbance"
    assert line.measured == "480 ± 28.3"
    assert line.spread == "500, 500, 440 (3 seeds)"


def test_an_interquartile_mean_is_shown_with_its_interval() -> None:
    line = Line("Score", [10.0, 20.0, 30.0, 90.0], "points", Target("≥", 26), over_seeds=True, is_iqm=True)
    assert line.verdict == "**short**" and line.centre == 25
    assert line.measured == "25.0 points (IQM, 10.0 to 90.0)"
    assert Line("Score", [10.0], over_seeds=True, is_iqm=True).measured == "10.0"


def test_a_section_comes_back_from_its_file_as_it_was() -> None:
    lines = [Line("Speed", [1.0, 2.0], target=Target("≥", 0.98)), Line("Steps", [3.0], "/s", over_seeds=True)]
    kept = Section("walking", "How fast", "Feet.", lines, measured={"on": "earth"})
    assert Section.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_a_line_without_a_target_is_never_short() -> None:
    assert Line("Speed", [0.0]).reached is None
    assert Line("Speed", [0.0]).verdict == "for information"


def test_a_line_that_was_never_measured_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="'Speed' was never measured"):
        Line("Speed", [])


def test_the_spread_shows_extent_count_and_middle_half() -> None:
    assert speed(1.0).spread == "once"
    assert speed(1.0, 3.0).spread == "1.00 to 3.00 (2 times)"
    assert speed(5.0, 1.0, 4.0, 2.0, 3.0).spread == "1.00 to 5.00 (5 times), middle half 2.00 to 4.00"


def test_interleaving_measures_in_the_order_abba_and_keeps_each_in_its_place() -> None:
    order: list[str] = []

    def measuring(name: str) -> str:
        order.append(name)
        return f"{name}{len(order)}"

    pairs = interleaved(3, lambda: measuring("a"), lambda: measuring("b"))
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert pairs == [("a1", "b2"), ("a4", "b3"), ("a5", "b6")]


def test_a_ratio_belongs_to_one_pair() -> None:
    assert ratios([(1.0, 2.0), (30.0, 10.0)]) == [0.5, 3.0]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 99) == 99.0
    assert percentile(values, 100) == 100.0
    assert percentile([7.0], 1) == 7.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98765, "0.988"),
        (9.8765, "9.88"),
        (98.765, "98.8"),
        (987.65, "988"),
        (12345.6, "12,346"),
        (0.0123456, "0.0123"),
        (-0.5, "-0.500"),
        (0.0, "0"),
        (math.nan, "nan"),
    ],
)
def test_a_figure_has_three_digits_that_mean_something(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_figure_carries_its_unit() -> None:
    assert figure(12.0, "ms") == "12.0 ms"


def test_the_page_shows_targets_and_verdicts() -> None:
    text = page([section(speed(0.99, 0.99), Line("Steps", [12345.0], "/s"))])
    assert "| Speed | ≥ 0.98 | 0.990 | pass |" in text
    assert "| Steps |  | 12,345 /s | once | for information |" in text
    assert 'Command: `make bench ARGS="--only walking"`' in text


def test_the_summary_leaves_out_what_has_no_target() -> None:
    summary, _, details = page([section(Line("Steps", [1.0]))]).partition("## ")
    assert "Steps" not in summary
    assert "Steps" in details


def test_what_falls_short_or_could_not_be_measured_stands_in_the_summary() -> None:
    summary, _, details = page([section(speed(0.5)), section(problem="no floor")]).partition("## ")
    assert "| Speed | ≥ 0.98 | 0.500 | **short** |" in summary
    assert "| How fast we walk | | | **not measured** |" in summary
    assert "Not measured: no floor" in details


def test_the_exit_status_distinguishes_all_reached_short_and_not_measured() -> None:
    good, short, broken = section(speed(1.0)), section(speed(0.5)), section(problem="no floor")
    assert exit_status([good]) == 0
    assert exit_status([good, short]) == 1
    assert exit_status([good, short, broken]) == 2


def test_a_line_that_is_measured_again_takes_its_place_with_its_own_date() -> None:
    old = Section(
        "walking",
        "How fast",
        "Feet.",
        [Line("a", [1.0]), Line("b", [2.0])],
        measured={"Measured": "monday", "on": "earth"},
    )
    part = Section(
        "walking",
        "How fast",
        "Feet.",
        [Line("b", [3.0]), Line("c", [4.0])],
        measured={"Measured": "friday", "on": "earth"},
    )
    merged = old.with_lines_of(part)
    assert [(line.what, line.values[0], line.apart) for line in merged.lines] == [
        ("a", 1.0, {}),
        ("b", 3.0, {"Measured": "friday"}),
        ("c", 4.0, {"Measured": "friday"}),
    ]
    assert merged.measured == {"Measured": "monday", "on": "earth"}
    text = page([merged])
    assert "| b |  | 3.00 | once | for information | Measured: friday |" in text
    assert "| a |  | 1.00 | once | for information |  |" in text


def test_the_page_has_no_column_for_dates_that_are_the_section_s() -> None:
    assert "Measured apart" not in page([section(Line("a", [1.0]))])


def test_words_choose_by_title_and_no_word_chooses_all() -> None:
    titles = ["sac, Pendulum-v1", "td3, Pendulum-v1", "ppo, CartPole-v1"]
    assert chosen(titles, ["sac", "Cart"]) == ["sac, Pendulum-v1", "ppo, CartPole-v1"]
    assert chosen(titles, []) == titles
    assert chosen(titles, ["dqn"]) == []
