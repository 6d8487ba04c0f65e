"""``mosaic reproduce`` against a real daemon, as a newcomer would use it, also wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess

STEPS = 60


@dataclass(frozen=True)
class _Place:
    mosaic: CommandLine
    daemon: DaemonProcess
    run_id: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Place]:
    daemon = DaemonProcess(tmp_path_factory.mktemp("reproduce") / "home")
    try:
        daemon.start()
        run_id = daemon.submit(name="base", seed=3, total_timesteps=STEPS, step_seconds=0)
        daemon.wait_over(run_id)
        yield _Place(CommandLine(daemon.paths.root, daemon.env), daemon, run_id)
    finally:
        daemon.clean_up()


def test_a_run_is_started_again_and_found_to_be_the_same(place: _Place) -> None:
    answer = place.mosaic("reproduce", "base")
    assert answer.code == 0, answer.out + answer.err
    assert "are as they were for" in answer.out.splitlines()[0]
    assert f"The same to the bit: no difference in {STEPS} points of 1 metric." in answer.out
    facts = dict(line.split(None, 1) for line in place.mosaic("show", "base-reproduced").out.splitlines()[1:])
    assert facts["reproduces"] == place.run_id[-6:]
    assert "thread, Python " in facts["made"]
    checked = place.mosaic("reproduce", "base-reproduced", "--check", "--json")
    assert (checked.code, checked.json["verdict"], checked.json["first_difference"]) == (0, "same", None)
    assert checked.json["reproduces"]["run_id"] == place.run_id


def test_a_dry_run_starts_nothing_and_no_wait_leaves_at_once(place: _Place) -> None:
    before = place.mosaic("runs", "--json").json["total"]
    dry = place.mosaic("reproduce", "base", "--dry-run", "--json")
    assert (dry.code, dry.json["differences"], dry.json["recorded"]) == (0, [], True)
    assert dry.json["config"]["metadata"]["reproduces"] == place.run_id
    assert place.mosaic("runs", "--json").json["total"] == before
    started = place.mosaic("reproduce", "base", "--no-wait", "--json")
    assert started.code == 0
    place.daemon.wait_over(started.json["run_id"])
    assert place.mosaic("reproduce", started.json["run_id"], "--check").code == 0


def test_another_curve_is_different_and_the_exit_code_says_so(place: _Place) -> None:
    """A repetition whose numbers are others, as those of another machine might be."""
    config = json.loads(place.daemon.client.run(place.run_id).config_json)
    config["run_name"], config["metadata"]["reproduces"] = "another", place.run_id
    config["metadata"]["worker"]["config"]["offset"] = 5
    other = place.daemon.client.submit(config).run.run_id
    place.daemon.wait_over(other)
    answer = place.mosaic("reproduce", other, "--check")
    assert answer.code == 9, answer.out
    assert "first at step 1, charts/episodic_return: 1.0 then, 6.0 now (0 equal before it)" in answer.out


def test_a_run_that_failed_is_reproduced_with_its_failure(place: _Place) -> None:
    failed = place.daemon.submit(name="broken", total_timesteps=STEPS, misbehave="crash")
    place.daemon.wait_over(failed)
    answer = place.mosaic("reproduce", "broken", "--json")
    assert answer.code == 0, answer.out
    assert (answer.json["run"]["outcome"], answer.json["verdict"]) == ("failed", "same")
    assert answer.json["notes"] == ["compared up to step 1, where the reproduced run was ended"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nobody",), 3, "no run is called 'nobody'"),
        ((), 2, "missing argument 'RUN'"),
        (("base", "--check"), 2, "reproduces no run"),
        (("base", "--check", "--dry-run"), 2, "--check starts nothing"),
        (("base", "--dry-run", "--no-wait"), 2, "choose one of --dry-run and --no-wait"),
        (("base", "--wiht-changes"), 2, "did you mean '--with-changes'?"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(place: _Place, words: tuple[str, ...], code: int, sentence: str) -> None:
    answer = place.mosaic("reproduce", *words)
    assert answer.code == code, answer.err
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


def test_a_run_that_goes_on_is_refused_and_of_a_canceled_one_no_more_is_trained_than_it_did(place: _Place) -> None:
    endless = place.daemon.submit(name="endless", total_timesteps=10**6, step_seconds=0.05)
    place.daemon.wait_state(endless, "EXEC")
    answer = place.mosaic("reproduce", "endless")
    place.daemon.client.cancel(endless)
    then = place.daemon.wait_over(endless)
    assert answer.code == 2
    assert "it is not over yet" in answer.err
    again = place.mosaic("reproduce", "endless", "--json")
    assert (again.code, again.json["verdict"], again.json["run"]["outcome"]) == (0, "same", "canceled"), again.out
    assert again.json["run"]["last_step"] > then.last_step
