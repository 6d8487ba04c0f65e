"""The queue in another order: who is moved starts when it is said, and a crash forgets no move that was answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from gym_gui.services.hosts.book import Host, HostBook
from gym_gui.services.trainer.client import ClientError, NoSuchRunError, RequestRefusedError
from gym_gui.services.waiting_line import host_asked, labels_asked
from gym_gui.tests.faults.test_interactive_runs import playful, session  # noqa: F401 - a fixture
from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import raw_stub, refusal
from mosaic_protocol.proto import trainer_pb2 as pb

LONG = 10_000_000


@pytest.fixture
def busy(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon with one CPU, which is taken."""
    daemon = make_daemon(cpus=1, warm_starts=1).start()
    daemon.wait_state(daemon.submit(name="blocker", total_timesteps=LONG), "EXEC")
    return daemon


def waiting(daemon: DaemonProcess, *names: str) -> list[str]:
    return [daemon.submit(name=name, total_timesteps=3, step_seconds=0.001) for name in names]


def line(daemon: DaemonProcess) -> list[str]:
    """Names of the queued runs by their keys, which must say the same as their positions."""
    runs = list(daemon.client.runs(size=100, states=["INIT"]).runs)
    by_key = sorted(runs, key=lambda run: run.queue_key)
    assert [run.queue_position for run in by_key] == list(range(1, len(runs) + 1))
    return [run.name for run in by_key]


def order_of_starts(daemon: DaemonProcess, run_ids: Sequence[str]) -> list[str]:
    """Let the blocker go; the names of the others as they started."""
    daemon.client.cancel("blocker")
    runs = [daemon.wait_over(run_id) for run_id in run_ids]
    assert {run.outcome for run in runs} == {"completed"}
    launched = {run.name: _launch(daemon, run) for run in runs}
    return sorted(launched, key=launched.__getitem__)


def _launch(daemon: DaemonProcess, run: pb.Run) -> int:
    return next(move.revision for move in daemon.client.history(run.run_id) if move.cause == "Launching")


def test_runs_start_in_the_order_in_which_they_were_put(busy: DaemonProcess) -> None:
    a, b, c, d, e = runs = waiting(busy, "a", "b", "c", "d", "e")
    assert line(busy) == ["a", "b", "c", "d", "e"]
    assert busy.client.move(e, first=True).queue_position == 1
    assert busy.client.move(a, last=True).queue_position == 5
    assert busy.client.move(b, after=c).queue_position == 3
    assert busy.client.move(d, before=c).queue_position == 2
    assert line(busy) == ["e", "d", "c", "b", "a"]
    told = [move.detail for move in busy.client.history(e) if move.cause == "Moved"]
    assert told == ["to the front of the queue"]
    assert order_of_starts(busy, runs) == ["e", "d", "c", "b", "a"]


def test_a_move_that_was_answered_survives_the_death_of_the_daemon(busy: DaemonProcess) -> None:
    a, b, c = runs = waiting(busy, "a", "b", "c")
    busy.client.move(c, first=True)
    busy.client.move(a, after=b)
    busy.kill()
    busy.start()
    assert line(busy) == ["c", "b", "a"]
    late = waiting(busy, "late")
    assert line(busy) == ["c", "b", "a", "late"], "what comes later stands behind those that were moved to the end"
    assert order_of_starts(busy, [*runs, *late]) == ["c", "b", "a", "late"]


def test_a_move_lets_a_run_start_that_fits_where_the_head_does_not(make_daemon: Callable[..., DaemonProcess]) -> None:
    daemon = make_daemon(cpus=2).start()
    daemon.wait_state(daemon.submit(name="half", total_timesteps=LONG), "EXEC")
    large = daemon.submit(name="large", cpus=2, total_timesteps=LONG)
    small = daemon.submit(name="small", total_timesteps=LONG)
    assert daemon.client.run(small).queue_position == 2
    daemon.client.move(small, first=True)
    daemon.wait_state(small, "EXEC")
    assert daemon.client.run(large).queue_position == 1


def test_the_same_request_moves_a_run_once(busy: DaemonProcess) -> None:
    _a, b, c = waiting(busy, "a", "b", "c")
    busy.client.move(c, first=True, request_id="first-c")
    busy.client.move(b, first=True)
    assert line(busy) == ["b", "c", "a"]
    busy.kill()
    busy.start()
    again = busy.client.move(c, first=True, request_id="first-c")
    assert again.queue_position == 2
    assert line(busy) == ["b", "c", "a"]
    assert [move.cause for move in busy.client.history(c)].count("Moved") == 1
    with pytest.raises(RequestRefusedError, match="'first-c' was used before for something else"):
        busy.client.move(c, last=True, request_id="first-c")
    config = json.dumps(toy_config(name="d"))
    with raw_stub(busy) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.SubmitRun(pb.SubmitRunRequest(config_json=config, client_request_id="first-c"), metadata=token)
    assert refusal(error.value)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_what_cannot_be_is_refused_with_a_sentence_and_changes_nothing(busy: DaemonProcess) -> None:
    a, b = waiting(busy, "a", "b")
    over = busy.submit(name="over")
    busy.client.cancel(over)
    for wrong, words in (
        (lambda: busy.client.move("blocker", first=True), "not in the queue any more: it has started"),
        (lambda: busy.client.move(over, first=True), "is not in the queue: it ended: canceled"),
        (lambda: busy.client.move(b, before="blocker"), "blocker .* is not in the queue any more"),
        (lambda: busy.client.move(b, after=over), "over .* is not in the queue: it ended"),
        (lambda: busy.client.move(b, before=b), "itself: name another run"),
        (lambda: busy.client.move(b), "no place was named for run b"),
        (lambda: busy.client.move(b, first=True, request_id="x" * 201), "longer than 200 characters"),
    ):
        with pytest.raises(RequestRefusedError, match=words):
            wrong()
    for unknown in (lambda: busy.client.move("nobody", first=True), lambda: busy.client.move(b, before="nobody")):
        with pytest.raises(NoSuchRunError, match="no run is called 'nobody'"):
            unknown()
    with raw_stub(busy) as (stub, token), pytest.raises(grpc.RpcError) as error:
        stub.MoveRun(pb.MoveRunRequest(run_id=a, last=False), metadata=token)
    assert refusal(error.value)[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert line(busy) == ["a", "b"]


def test_sessions_and_training_keep_lines_of_their_own(playful: DaemonProcess) -> None:  # noqa: F811 - the fixture
    playful.wait_state(playful.submit(name="training", cpus=2, total_timesteps=LONG), "EXEC")
    playful.wait_state(session(playful, name="played"), "EXEC")
    first, second = (playful.submit(name=f"waiting-{number}", cpus=2, total_timesteps=LONG) for number in (1, 2))
    one, two = (session(playful, name=f"session-{number}") for number in (1, 2))
    playful.client.move(second, first=True)
    places = [playful.client.run(run_id).queue_position for run_id in (second, first, one, two)]
    assert places == [1, 2, 1, 2]
    with pytest.raises(RequestRefusedError, match="wait in different lines"):
        playful.client.move(second, before=one)
    playful.client.move(two, before=one)
    playful.client.cancel("played")
    playful.wait_state(two, "EXEC")
    assert [playful.client.run(run_id).state for run_id in (one, first, second)] == ["INIT"] * 3


def test_watchers_hear_of_the_run_that_was_moved_and_of_no_other(busy: DaemonProcess) -> None:
    a, b, c = waiting(busy, "a", "b", "c")
    seen = max(busy.client.run(run_id).revision for run_id in (a, b, c))
    moved = busy.client.move(c, first=True)
    update = next(iter(busy.client.watch(after_revision=seen)))
    assert (update.run.run_id, update.run.queue_key) == (c, moved.queue_key)
    assert update.revision == moved.revision
    keys = [busy.client.run(run_id).queue_key for run_id in (c, a, b)]
    assert keys == sorted(keys)


def test_moves_that_race_with_starts_and_each_other_are_each_answered_or_refused(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    """The history checker looks afterwards whether every run had its turn."""
    daemon = make_daemon(cpus=2, warm_starts=1).start()
    runs = waiting(daemon, *(f"run-{number}" for number in range(10)))
    refusals: list[str] = []
    over = threading.Event()

    def move(number: int) -> int:
        answered = 0
        while not over.is_set():
            run_id, other = runs[(7 * number + 3 * answered) % 10], runs[(number + answered // 4) % 10]
            place = ({"first": True}, {"last": True}, {"before": other}, {"after": other})[answered % 4]
            try:
                daemon.client.move(run_id, **place)
            except RequestRefusedError as error:
                refusals.append(str(error))
            answered += 1
        return answered

    with ThreadPoolExecutor(3) as clients:
        answers = [clients.submit(move, number) for number in range(3)]
        try:
            for run_id in runs:
                assert daemon.wait_over(run_id).outcome == "completed"
        finally:
            over.set()
        assert sum(answer.result() for answer in answers) > 10
    assert all("in the queue" in sentence or "itself" in sentence for sentence in refusals), set(refusals)
    assert [daemon.starts(run_id) for run_id in runs] == [1] * 10
    wait_for("an empty queue", lambda: not daemon.client.health().queued)


# ---- from host to host ---------------------------------------------------------------------------------------------


def for_host(daemon: DaemonProcess, **resources: object) -> str:
    config = toy_config(total_timesteps=3)
    config["resources"] |= resources
    return daemon.client.submit(config).run.run_id


def asked_of(daemon: DaemonProcess, run_id: str) -> tuple[str, list[str]]:
    run = daemon.client.run(run_id)
    return host_asked(run), labels_asked(run)


def test_a_run_that_waits_for_a_host_is_moved_to_another_and_stays_there(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    """Nobody answers at either host: what waits for one can be moved all the same."""
    daemon = make_daemon(cpus=4)
    book = HostBook(daemon.paths)
    for name, labels in (("far", ()), ("lab", ("fast",))):
        book.add(Host(name, "ssh://nobody@127.0.0.1:9", labels=labels))
    daemon.start()
    client = daemon.client
    run_id, labelled, stuck = (
        for_host(daemon, host="far"),
        for_host(daemon, labels=["fast"]),
        for_host(daemon, host="far"),
    )
    assert asked_of(daemon, labelled) == ("any", ["fast"])
    with pytest.raises(RequestRefusedError, match="No host is labelled fats"):
        for_host(daemon, labels=["fats"])
    with pytest.raises(RequestRefusedError, match=r"no host 'fra'.*did you mean 'far'"):
        client.move(run_id, host="fra")
    places = [client.run(one).queue_position for one in (run_id, labelled, stuck)]
    moved = client.move(run_id, host="lab", request_id="same")
    assert host_asked(moved) == "lab" and moved.queue_position == places[0], "it keeps its place in the line"
    client.move(run_id, host="lab", request_id="same")
    book.remove("far")
    daemon.kill()
    daemon.start()
    assert asked_of(daemon, run_id) == ("lab", [])
    assert "There is no host 'far'" in daemon.client.run(stuck).reason
    for one in (run_id, labelled, stuck):
        daemon.client.move(one, host="here")
        assert daemon.wait_over(one).outcome == "completed"
        assert asked_of(daemon, one) == ("", []), "who names a place has chosen"
    story = [move.detail for move in daemon.client.history(run_id)]
    assert (story.count("to host lab"), story.count("to this machine")) == (1, 1)
    with pytest.raises(ClientError, match="not in the queue"):
        daemon.client.move(run_id, host="lab")
