"""Rows, order, queue and rules of the runs, without Qt."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from gym_gui.services.run_filter import EVERYTHING, parse
from gym_gui.services.run_labels import labels_in
from gym_gui.services.waiting_line import in_line, places, waiting_line
from gym_gui.ui.models.run_order import RunOrder, View
from gym_gui.ui.models.run_rows import BUCKETS, COLUMN_NUMBERS, COLUMNS, RunRow, bucket
from gym_gui.ui.models.run_rules import NOTHING_SELECTED, Known, applicable, why_not
from mosaic_protocol.proto import trainer_pb2 as pb


def made(number: int, **fields: Any) -> pb.Run:
    """A run as the daemon describes it."""
    config = fields.pop("config", {"metadata": {"worker": {"config": {"seed": number}}}})
    given: dict[str, Any] = {
        "run_id": f"{number:026d}",
        "name": f"run-{number}",
        "state": "EXEC",
        "desired": "run",
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "created_at": 1000.0 + number,
        "config_json": json.dumps(config),
        "seed": labels_in(config).seed,
    }
    return pb.Run(**{**given, **fields})


def text(run: pb.Run, column: str, now: float = 0.0) -> str:
    return COLUMNS[COLUMN_NUMBERS[column]].text(RunRow(run, 0.0), now)


def shown(order: RunOrder) -> list[str]:
    """Names of runs, and groups in brackets."""
    entries = []
    for position in range(len(order)):
        row = order.row(position)
        entries.append(f"[{order.header(position)}]" if row is None else row.run.name)
    return entries


def ordered(runs: list[pb.Run], **view: Any) -> RunOrder:
    order = RunOrder()
    order.view = View(**view)
    order.take(runs, 0.0)
    order.rebuild()
    return order


# ---- rows --------------------------------------------------------------------------------------------------------


def test_the_clock_of_a_training_run_goes_on_between_two_words_of_the_daemon() -> None:
    training = made(1, active_seconds=60.0, last_step=1000, total_steps=2000)
    assert text(training, "elapsed", now=30.0) == "1m 30s"
    assert text(training, "eta", now=30.0) == "30s"
    paused = made(1, state="PAUSE", active_seconds=60.0, last_step=1000, total_steps=2000)
    assert (text(paused, "elapsed", now=30.0), text(paused, "eta", now=30.0)) == ("1m 00s", "")


def test_a_run_that_was_told_to_stop_has_no_eta() -> None:
    stopping = made(1, desired="stop", active_seconds=60.0, last_step=1000, total_steps=2000)
    assert (stopping.state, text(stopping, "eta", now=30.0)) == ("EXEC", "")


def test_the_eta_of_a_resumed_run_counts_only_steps_of_its_own_time() -> None:
    row = RunRow(made(1, active_seconds=1.0, last_step=50_000, total_steps=100_000), 0.0)
    row.update(made(1, active_seconds=11.0, last_step=51_000, total_steps=100_000), 10.0)
    assert row.remaining() == pytest.approx(490.0)


def test_what_is_not_known_is_left_empty() -> None:
    run = made(1, config={"metadata": 3}, headline={"mean_return": float("nan")})
    assert [text(run, name) for name in ("seed", "steps", "return", "sps", "elapsed", "eta", "reserved")] == [""] * 7


def test_steps_return_and_reservation_are_shown() -> None:
    run = made(7, last_step=1200, total_steps=50_000, headline={"mean_return": 212.44})
    run.reserved.CopyFrom(pb.Resources(cpus=2, memory_mb=2048))
    assert [text(run, name) for name in ("seed", "steps", "return", "reserved")] == [
        "7",
        "1,200 / 50,000",
        "212.4",
        "2 CPUs, 2.0 GB",
    ]


@pytest.mark.parametrize(
    ("last", "total", "seen"),
    [
        (0, 0, ""),
        (5, 0, "5"),
        (5, 1_234_567, "5 / 1,234,567"),
        (974_070, 10_000_000, "974,070 / 10M"),
        (1, 2_500_000, "1 / 2.5M"),
        (10_000_000, 10_000_000, "10,000,000"),
    ],
)
def test_steps_are_short_where_the_total_is_round(last: int, total: int, seen: str) -> None:
    assert text(made(1, last_step=last, total_steps=total), "steps") == seen


@pytest.mark.parametrize(
    ("state", "outcome", "kind"),
    [
        ("INIT", "", "queued"),
        ("HSHK", "", "live"),
        ("PAUSE", "", "live"),
        ("TERM", "completed", "finished"),
        ("TERM", "canceled", "finished"),
        ("TERM", "failed", "failed"),
        ("TERM", "timed_out", "failed"),
        ("TERM", "lost", "failed"),
    ],
)
def test_every_run_is_of_one_kind(state: str, outcome: str, kind: str) -> None:
    assert bucket(made(1, state=state, outcome=outcome)) == kind


# ---- order -------------------------------------------------------------------------------------------------------


def test_words_are_found_in_name_id_algorithm_and_environment() -> None:
    runs = [made(1, algo="dqn"), made(2, env_id="Pendulum-v1"), made(3)]
    assert shown(ordered(runs, words=("dqn", "cartpole"))) == ["run-1"]
    assert shown(ordered(runs, words=("pend",))) == ["run-2"]
    assert shown(ordered(runs, words=("0003",))) == ["run-3"]


@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
@pytest.mark.parametrize("descending", [True, False])
def test_every_column_sorts_and_what_has_no_value_comes_last(column: str, descending: bool) -> None:
    full = [
        made(
            number,
            state="INIT" if column == "queue" else "EXEC",
            queue_key=f"80000000000{number}" if column == "queue" else "",
            worker_type=f"w{number}",
            algo=f"a{number}",
            env_id=f"e{number}",
            last_step=number * 10,
            total_steps=1000,
            active_seconds=float(number),
            headline={"mean_return": number, "charts/SPS": number},
            reserved=pb.Resources(cpus=number),
            tags=[f"t{number}"],
        )
        for number in (2, 1, 3)
    ]
    names = shown(ordered(full, sort=column, descending=descending))
    assert sorted(names) == ["run-1", "run-2", "run-3"]
    if column not in ("status", "eta"):
        assert names == sorted(names, reverse=descending)


def test_a_run_without_a_return_comes_last_both_ways() -> None:
    runs = [
        made(1),
        made(2, headline={"mean_return": -5.0}),
        made(3, headline={"mean_return": 5.0}),
    ]
    assert shown(ordered(runs, sort="return", descending=True)) == ["run-3", "run-2", "run-1"]
    assert shown(ordered(runs, sort="return", descending=False)) == ["run-2", "run-3", "run-1"]


def test_groups_have_headers_and_a_folded_one_hides_its_runs() -> None:
    runs = [made(1, algo="dqn"), made(2), made(3, state="TERM", outcome="completed")]
    order = ordered(runs, grouping="algorithm", collapsed={"ppo"})
    assert shown(order) == ["[dqn]", "run-1", "[ppo]"]
    assert (order.size("ppo"), order.live_in("ppo"), order.matching()) == (2, 1, 3)


def test_a_repeated_word_is_no_news() -> None:
    order = ordered([made(1)])
    assert order.take([made(1)], 5.0) == []
    assert order.take([made(1, last_step=3)], 5.0) == [f"{1:026d}"]


@pytest.mark.parametrize("grouping", ["", "algorithm"])
@pytest.mark.parametrize("sort", ["created", "name", "steps", "return"])
def test_change_by_change_the_list_becomes_what_a_rebuild_would_give(grouping: str, sort: str) -> None:
    dice = random.Random(f"{grouping}{sort}")
    order = ordered([], grouping=grouping, sort=sort, buckets=frozenset({"live", "finished"}), collapsed={"c51"})
    mirror: list[Any] = []
    for _ in range(600):
        number = dice.randrange(25)
        if dice.random() < 0.15:
            changed = [f"{number:026d}"] if order.forget(f"{number:026d}") else []
        else:
            changed = order.take([_random_run(dice, number)], 0.0)
        if dice.random() < 0.1:
            order.absorb(changed)
            mirror = list(order._keys)
        for edit in order.edits(changed):
            _mirror(mirror, order, edit)
        assert mirror == order._keys
        kept = list(order._keys)
        order.rebuild()
        assert kept == order._keys
    assert sum(order.counts.values()) == len(order.rows)


@pytest.mark.parametrize("grouping", ["", "algorithm"])
def test_what_changed_behind_a_filter_stands_where_it_belongs_when_the_filter_goes(grouping: str) -> None:
    runs = [made(number, last_step=100 * number, algo="ppo" if number % 2 else "dqn") for number in range(6)]
    order = ordered(runs, sort="steps", grouping=grouping)
    order.view = replace(order.view, wanted=parse("seed<3"))
    order.rebuild()
    assert [name for name in shown(order) if "run" in name] and "run-5" not in shown(order)
    runs[5] = made(5, last_step=1, algo="dqn")
    order.take([runs[5]], 1.0)
    assert list(order.edits([runs[5].run_id])) == []
    for choice in ({"wanted": EVERYTHING}, {"descending": False}, {"pinned": frozenset({runs[2].run_id})}):
        order.view = replace(order.view, **choice)
        order.rebuild()
        afresh = ordered(runs, **vars(order.view))
        assert shown(order) == shown(afresh)


def test_several_settings_and_fields_have_to_hold_together() -> None:
    runs = [made(number, last_step=number % 3) for number in range(9)]
    order = ordered(runs, wanted=parse("seed>=2 seed<8 steps=1"), sort="name", descending=False)
    assert shown(order) == ["run-4", "run-7"]


def _random_run(dice: random.Random, number: int) -> pb.Run:
    state = dice.choice(["INIT", "EXEC", "TERM"])
    return made(
        number,
        state=state,
        outcome="completed" if state == "TERM" else "",
        algo=dice.choice(["ppo", "dqn", "c51"]),
        last_step=dice.randrange(5),
        headline={"mean_return": dice.randrange(4)} if dice.random() < 0.7 else {},
    )


def _mirror(mirror: list[Any], order: RunOrder, edit: Any) -> None:
    """What a view does that only hears of the edits."""
    edit.apply()
    if edit.kind == "insert":
        mirror.insert(edit.position, order._keys[edit.position])
    elif edit.kind == "remove":
        del mirror[edit.position]
    elif edit.kind == "move":
        del mirror[edit.position]
        place = edit.target - 1 if edit.target > edit.position else edit.target
        mirror.insert(place, order._keys[place])
    else:
        mirror[edit.position] = order._keys[edit.position]


# ---- queue -------------------------------------------------------------------------------------------------------


def queued(number: int, cpus: int = 1, **resources: int) -> pb.Run:
    asked = {name: {"requested": value} for name, value in {"cpus": cpus, **resources}.items()}
    return made(number, state="INIT", config={"resources": asked})


def test_the_line_is_in_the_order_of_the_keys_whichever_run_is_older() -> None:
    first, second, third = (queued(number) for number in (3, 1, 2))
    first.queue_key, second.queue_key, third.queue_key = "800000000001", "800000000001.8000", "800000000002"
    assert in_line([third, second, first]) == [first, second, third]


def test_the_line_is_in_the_order_of_coming() -> None:
    assert [run.name for run in in_line([queued(3), made(1), queued(2)])] == ["run-2", "run-3"]
    beside = queued(1)
    beside.reason = "This run can never start here"
    assert [run.name for run in in_line([queued(2), beside])] == ["run-2"]


def test_the_head_of_the_line_says_what_it_lacks_and_the_others_whom_they_wait_for() -> None:
    line = waiting_line(
        [queued(1, cpus=4, memory_mb=4096), queued(2)],
        pb.Health(capacity=pb.Resources(cpus=8, memory_mb=8192), reserved=pb.Resources(cpus=6, memory_mb=6144)),
    )
    assert line[0].waits_for == "4 CPUs, 2 free; 4.0 GB of memory, 2.0 GB free"
    assert (line[0].wants, line[1].position) == ("4 CPUs, 4.0 GB", 2)
    assert line[1].waits_for == "its turn: run-1 is before it"


def test_a_run_that_waits_for_a_host_waits_for_nobody_elsewhere() -> None:
    far, farther = queued(1), queued(3)
    far.config_json = farther.config_json = json.dumps({"resources": {"host": "a"}})
    far.reason = "waits: host a cannot be reached"
    line = waiting_line([far, queued(2), farther], pb.Health(capacity=pb.Resources(cpus=1)))
    assert [one.waits_for for one in line] == [far.reason, "starts now", "its turn: run-1 is before it"]


def test_a_run_whose_config_cannot_be_read_is_in_line_all_the_same() -> None:
    broken = made(1, state="INIT", config_json="{")
    assert waiting_line([broken], pb.Health(capacity=pb.Resources(cpus=1)))[0].waits_for == "starts now"


def test_interactive_runs_wait_in_a_line_of_their_own() -> None:
    sessions = [queued(2), queued(4)]
    for run in sessions:
        run.interactive = True
    waiting = in_line([queued(1, cpus=4), *sessions, queued(3)])
    health = pb.Health(capacity=pb.Resources(cpus=4), interactive_cpus=2, interactive_reserved=2)
    assert [(one.name, one.position, one.waits_for) for one in waiting_line(waiting, health)] == [
        ("run-2", 1, "1 CPU, 0 free"),
        ("run-4", 2, "its turn: run-2 is before it"),
        ("run-1", 1, "starts now"),
        ("run-3", 2, "its turn: run-1 is before it"),
    ]
    numbers = places(waiting)
    assert [numbers[run.run_id] for run in waiting] == [1, 1, 2, 2]


# ---- rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "state", "desired", "outcome", "reason"),
    [
        ("cancel", "EXEC", "run", "", ""),
        ("cancel", "EXEC", "stop", "", "it is stopping already"),
        ("cancel", "TERM", "stop", "failed", "it is over"),
        ("pause", "EXEC", "run", "", ""),
        ("pause", "INIT", "run", "", ""),
        ("pause", "HSHK", "run", "", ""),
        ("pause", "RDY", "pause", "", "it is pausing"),
        ("pause", "FAULT", "run", "", "it is ending"),
        ("pause", "EXEC", "pause", "", "it is pausing"),
        ("resume", "PAUSE", "pause", "", ""),
        ("resume", "EXEC", "run", "", "it is training"),
        ("resume", "TERM", "stop", "canceled", ""),
        ("resume", "TERM", "run", "completed", "it completed; duplicate it to train again"),
        ("delete", "EXEC", "run", "", "it is not over; cancel it first"),
        ("delete", "TERM", "run", "completed", ""),
    ],
)
def test_an_action_is_offered_where_it_applies_and_says_why_elsewhere(
    action: str, state: str, desired: str, outcome: str, reason: str
) -> None:
    run = made(1, state=state, desired=desired, outcome=outcome)
    said = why_not(action, [run], Known(cannot_go_on={run.run_id: ""}))
    assert reason in said and bool(said) == bool(reason)


def test_of_several_runs_those_it_applies_to_are_taken() -> None:
    runs = [made(1), made(2, state="TERM", outcome="failed")]
    assert applicable("delete", runs) == [runs[1]] and why_not("delete", runs) == ""
    assert why_not("duplicate", runs) == "Select just one run."
    assert why_not("cancel", []) == NOTHING_SELECTED


def test_the_kinds_that_can_be_hidden_are_four() -> None:
    assert BUCKETS == ("live", "queued", "finished", "failed")
