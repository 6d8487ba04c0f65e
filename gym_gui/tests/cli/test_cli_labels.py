"""``mosaic rename``, ``tag`` and ``note``, through the daemon, of runs that train and runs that are over."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess


def test_what_people_remember_of_a_run_can_be_changed_while_it_trains_and_afterwards(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(name="first", total_timesteps=10**6, step_seconds=0.01)
    daemon.wait_state(run_id, "EXEC")
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    assert mosaic("rename", run_id, "second").out == f"{run_id[-6:]} (second) has this name now\n"
    assert json.loads(daemon.paths.run_config(run_id).read_text())["run_name"] == "second"
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)
    assert mosaic("tag", "second", "paper", "a b", "--remove", "none").out.endswith("has the tags: paper, a b\n")
    assert mosaic("tag", "second", "--remove", "paper", "--json").json["tags"] == ["a b"]
    assert mosaic("note", "second", "one").code == 0
    assert mosaic("note", "second", "two", "--append").code == 0
    assert mosaic("note", "second").out == "one\ntwo\n"
    run = daemon.client.run(run_id)
    assert (run.name, list(run.tags), run.state, run.outcome) == ("second", ["a b"], "TERM", "canceled")
    assert [move.cause for move in daemon.client.history(run_id)].count("Relabelled") == 5
    for words, refused in (
        (("rename", "second", " x"), "blank"),
        (("tag", "second"), "name a tag to add"),
        (("note", "second", "--append"), "needs the text"),
    ):
        answer = mosaic(*words)
        assert (answer.code, refused in answer.err) == (2, True)
    assert [found.run_id for found in daemon.client.runs(where='tag="a b"').runs] == [run_id]


def test_what_many_change_at_once_is_all_there(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=5)
    daemon.wait_over(run_id)
    tags = [f"t{number}" for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda tag: daemon.client.update(run_id, add_tags=[tag]), tags))
    assert sorted(daemon.client.run(run_id).tags) == sorted(tags)
    daemon.client.delete(run_id)
    daemon.client.restore(run_id)
    assert sorted(daemon.client.run(run_id).tags) == sorted(tags)
