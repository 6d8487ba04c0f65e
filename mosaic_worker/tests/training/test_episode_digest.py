"""The few numbers that travel with a checkpoint."""

from __future__ import annotations

import json
import math

import pytest

from mosaic_worker.training.episode_digest import EpisodeDigest


def after(returns: list[float]) -> EpisodeDigest:
    digest = EpisodeDigest()
    for number, value in enumerate(returns):
        digest.note(10 * number, value)
    return digest


def test_the_mean_is_over_the_last_hundred_episodes_only() -> None:
    metrics = after([1000.0] * 50 + [1.0] * 50 + [3.0] * 50).metrics()
    assert metrics["episodes"] == 150
    assert metrics["mean_return"] == 2.0 and metrics["std_return"] == 1.0


def test_before_the_first_episode_there_is_no_mean() -> None:
    assert EpisodeDigest().metrics() == {"episodes": 0}


@pytest.mark.parametrize("count", [1, 127, 128, 129, 5000])
def test_the_curve_covers_the_whole_run_and_never_grows_long(count: int) -> None:
    curve = after([float(number) for number in range(count)]).metrics()["curve"]
    steps = [step for step, _ in curve]
    assert 1 <= len(curve) < 128 and steps == sorted(set(steps))
    assert steps[-1] >= 10 * (count - 1) * 0.95 - 10 and steps[0] <= 10 * max(1, count / 32)


def test_a_return_that_is_no_number_is_left_out() -> None:
    assert after([1.0, math.nan, 3.0]).metrics()["mean_return"] == 2.0


def test_a_restored_digest_goes_on_as_if_it_had_never_stopped() -> None:
    returns = [float(number % 37) for number in range(700)]
    whole, second = after(returns), EpisodeDigest()
    second.restore(json.loads(json.dumps(after(returns[:333]).metrics())))
    for number, value in enumerate(returns[333:], start=333):
        second.note(10 * number, value)
    assert second.metrics() == whole.metrics()
