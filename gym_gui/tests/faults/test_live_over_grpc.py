"""A session is watched and steered through the daemon by one who sees nothing else of its machine, and neither a bad
watcher nor a bad session nor the death of the daemon harms anybody else."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, over_tcp, wait_for
from gym_gui.tests.support.live_sessions import (
    MadeSession,
    met,
    resident_bytes,
    submit_session,
    until,
    watched,
)
from mosaic_protocol.endpoint import bearer
from mosaic_protocol.live import frames
from mosaic_protocol.live.client import LiveClient, SessionAwayError, WayBrokenError
from mosaic_protocol.live.frames import FrameWriter
from mosaic_protocol.live.messages import Act, End, HandOver, Keys, Pause, Press, SeatState, State, read_told
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

pytestmark = pytest.mark.usefixtures("workers_train")

MakeDaemon = Callable[..., DaemonProcess]


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> DaemonProcess:
    """One that listens on TCP."""
    return make_daemon("--tcp").start()


@pytest.fixture
def remote(daemon: DaemonProcess) -> Iterator[TrainerClient]:
    with over_tcp(daemon) as client:
        yield client


@pytest.fixture
def made(daemon: DaemonProcess, tmp_path: Path) -> Iterator[MadeSession]:
    with closing(MadeSession(daemon, tmp_path / "gate")) as session:
        yield session


def pixels_of(client: LiveClient, what: str, seat: int = 1) -> bytes:
    found: list[bytes] = []

    def came() -> bool:
        if (frame := client.frame(seat)) is not None:
            found.append(frame.pixels)
        return bool(found)

    until(client, what, came)
    return found[-1]


def test_a_session_is_played_from_another_machine(daemon: DaemonProcess, remote: TrainerClient) -> None:
    run_id = submit_session(daemon, "FrozenLake-v1", slippery=False)
    threads = threading.active_count()
    with (
        closing(met("the session", lambda: remote.live_session(run_id))) as far,
        watched(daemon, run_id) as near,
    ):
        assert far.hello == near.hello
        until(far, "a first move", lambda: far.state.waiting)
        far.send(Press("right"))
        for client in (far, near):
            until(client, "the move", lambda client=client: client.state.steps == 1)
        first = near.frame()
        assert first is not None and pixels_of(far, "the same picture") == first.pixels
        far.send(Keys({"x": 2}))
        until(far, "other keys", lambda: far.hello is not None and far.hello.key_map.action_for(["x"]) == 2)
        assert far.offer(Act(99))
        until(far, "a refusal", lambda: far.refusals)
        far.send(HandOver("random"))
        until(far, "the hand-over", lambda: far.state.actor == "random")
        before = far.frame() or first
        until(far, "another picture", lambda: (frame := far.frame()) is not None and frame.number > before.number)
        far.send(End())
        with pytest.raises(SessionAwayError, match="the session ended"):
            until(far, "the end", lambda: False)
    assert daemon.wait_over(run_id).outcome == "completed"
    assert threading.active_count() <= threads, [thread.name for thread in threading.enumerate()]
    with closing(remote.live_session(run_id)) as late, pytest.raises(SessionAwayError, match=r"is over \(completed\)"):
        late.wait_for_hello()


def test_what_is_no_session_is_refused_in_a_sentence(
    daemon: DaemonProcess, remote: TrainerClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = daemon.submit(total_timesteps=3, cpus=8, params={"gate": str(gate), "gate_at": 1})
    daemon.wait_state(running, "EXEC")
    queued = daemon.submit(name="later", total_timesteps=3)
    stranger = over_tcp(daemon, read_token=lambda: "a wrong token")
    for client, run_id, sentence in (
        (remote, "no-such-run", "no run"),
        (remote, "", "no run was named"),
        (remote, running, "it is no live session, or it ends just now"),
        (remote, queued, "has not begun: it is in state INIT"),
        (stranger, running, "no valid token"),
    ):
        with closing(client.live_session(run_id)) as live, pytest.raises(SessionAwayError, match=sentence) as refused:
            live.wait_for_hello()
        assert refused.value.is_gone == (client is remote) and "\n" not in str(refused.value)
        with pytest.raises(SessionAwayError, match=sentence):
            live.send(Pause())
    stranger.close()
    gate.touch()
    for run_id in (running, queued):
        daemon.wait_over(run_id)


def test_the_death_of_the_daemon_is_said_and_the_session_joined_again(daemon: DaemonProcess) -> None:
    run_id = submit_session(daemon, "CartPole-v1", actor="random", speed=0)
    with over_tcp(daemon) as remote, watched(daemon, run_id) as near:
        far = met("the session", lambda: remote.live_session(run_id))
        with closing(far):
            until(far, "steps", lambda: far.state.steps > 10)
            daemon.kill()
            with pytest.raises(WayBrokenError, match=r"cannot be reached .* sessions go on"):
                until(far, "the end of the way", lambda: False)
            before = near.state.steps
            until(near, "steps without a daemon", lambda: near.state.steps > before + 100)
    daemon.start()
    with over_tcp(daemon) as remote, closing(met("the session again", lambda: remote.live_session(run_id))) as far:
        until(far, "newer steps", lambda: far.state.steps > before)
        assert pixels_of(far, "pictures again")
        far.send(End())
        assert daemon.wait_over(run_id).outcome == "completed"


def test_a_daemon_that_leaves_says_that_the_session_goes_on(daemon: DaemonProcess, made: MadeSession) -> None:
    with over_tcp(daemon) as remote, closing(met("the session", lambda: remote.live_session(made.run_id))) as far:
        assert daemon.terminate() == 0
        with pytest.raises(WayBrokenError, match="sessions go on"):
            until(far, "the end of the way", lambda: False)
    daemon.start()


def raw_call(daemon: DaemonProcess, client: TrainerClient, first: pb.LiveInput, stack: ExitStack) -> Any:
    """A call whose answers nobody reads."""
    silence = threading.Event()

    def inputs() -> Iterator[pb.LiveInput]:
        yield first
        silence.wait(HANG_GUARD)

    channel = stack.enter_context(client.endpoint.channel())
    meta = bearer(daemon.paths.token_file.read_text().strip())
    call = TrainerServiceStub(channel).LiveSession(inputs(), metadata=meta)
    stack.callback(silence.set)
    stack.callback(call.cancel)
    return call


def test_watchers_that_never_read_cost_little_and_hold_up_nobody(
    daemon: DaemonProcess, remote: TrainerClient, made: MadeSession
) -> None:
    """Fifty of them: the session is told of by 16 kB at a time and shown by pictures that cannot be compressed."""
    assert daemon.process is not None
    size = 300 * 200 * 3
    with closing(FrameWriter(size)) as writer, ExitStack() as stack:
        noise = random.Random(7).randbytes(size + 100)
        wish = pb.LiveInput(run_id=made.run_id, pictures=[1])
        for _ in range(50):
            raw_call(daemon, remote, wish, stack)
        wait_for("all watchers", lambda: made.server.watchers == 50)
        with closing(met("the session", lambda: remote.live_session(made.run_id))) as reader:
            before = 0
            for step in range(1, 61):
                writer.put(300, 200, noise[step : step + size])
                made.server.publish(State(steps=step, text=f"{step}" * 8000, frames=str(writer.path)))
                until(reader, "the newest state", lambda step=step: reader.state.steps == step)
                assert remote.runs().total == 1
                before = before or resident_bytes(daemon.process.pid)
            grown = resident_bytes(daemon.process.pid) - before
            assert grown < 50 * (size + 4 * 64 * 1024), f"{grown:,} bytes more"
            assert pixels_of(reader, "the newest picture") == noise[60 : 60 + size]
            reader.send(Pause())
            assert made.next_command() == Pause()
        stack.close()
        wait_for("all watchers to be forgotten", lambda: made.server.watchers == 0)


def test_a_picture_is_sent_for_a_wish_and_not_before_the_last_one_was_taken(
    daemon: DaemonProcess, remote: TrainerClient, made: MadeSession
) -> None:
    with (
        closing(FrameWriter(12)) as writer,
        closing(FrameWriter(24)) as other,
        closing(met("the session", lambda: remote.live_session(made.run_id))) as far,
    ):
        for number in range(1, 10):
            writer.put(2, 2, bytes([number]) * 12)
        other.put(4, 2, bytes([77]) * 24)
        seats = (SeatState("a", frames=str(writer.path)), SeatState("b", frames=str(other.path)))
        made.server.publish(State(steps=1, seats=seats))
        until(far, "the state", lambda: far.state.steps == 1)
        assert far.frame() is None, "nobody had asked"
        assert pixels_of(far, "the newest") == bytes([9]) * 12
        assert pixels_of(far, "that of the second seat", seat=2) == bytes([77]) * 24
        writer.put(2, 2, bytes([10]) * 12)
        made.server.publish(State(steps=2, seats=seats))
        # It is asked for with the one before, and given when it is wanted.
        until(far, "the state", lambda: far.state.steps == 2)
        assert pixels_of(far, "the next") == bytes([10]) * 12
        made.server.publish(State(steps=3, frames=str(other.path)))
        assert pixels_of(far, "that of another file") == bytes([77]) * 24
        with ExitStack() as stack:
            came = 0
            for output in raw_call(daemon, remote, pb.LiveInput(run_id=made.run_id, pictures=[1]), stack):
                came += len(output.pictures)
                state = read_told(output.lines[-1]) if output.lines else None
                if isinstance(state, State) and state.steps < 20:
                    other.put(4, 2, bytes([state.steps]) * 24)
                    made.server.publish(State(steps=state.steps + 1, frames=str(other.path)))
                elif isinstance(state, State):
                    break
            assert came == 1, "one wish, one picture"


def test_a_session_cannot_make_the_daemon_read_another_file(
    daemon: DaemonProcess, remote: TrainerClient, made: MadeSession, tmp_path: Path
) -> None:
    """Nor end it: a file that is cut short would end a process that has mapped it."""
    place = frames.folder()
    with ExitStack() as stack:
        real = stack.enter_context(closing(FrameWriter(12)))
        aside = stack.enter_context(closing(FrameWriter(12, tmp_path)))
        link = place / f"{real.path.name.rpartition('-')[0]}-{'f' * 32}"
        link.symlink_to(aside.path)
        stack.callback(link.unlink)
        for writer in (real, aside):
            writer.put(2, 2, bytes([5]) * 12)
        hostile = (
            str(aside.path),
            str(link),
            str(daemon.paths.token_file),
            f"{place}/../{place.relative_to('/')}/{real.path.name}",
            f"{place}/./{real.path.name}\0",
            "/dev/zero",
            str(place),
        )
        for number, path in enumerate(hostile, 1):
            with closing(met("the session", lambda: remote.live_session(made.run_id))) as far:
                far.frame()
                made.server.publish(State(steps=number, frames=path))
                until(far, f"{path} to be refused", lambda: far.refusals or far.frame())
                assert [why.partition(":")[0] for why in far.refusals] == ["the pictures cannot be read"]
        with closing(met("the session", lambda: remote.live_session(made.run_id))) as far:
            made.server.publish(State(steps=90, frames=str(real.path)))
            assert pixels_of(far, "a real picture") == bytes([5]) * 12
            with real.path.open("r+b") as file:
                file.truncate(70)
            made.server.publish(State(steps=91, frames=str(real.path)))
            until(far, "the refusal", lambda: far.refusals)
            assert "no file of pictures" in far.refusals[0]
            far.send(Pause())
            assert made.next_command() == Pause()
    assert daemon.process is not None and daemon.process.poll() is None


def test_a_watcher_that_says_too_much_is_refused(
    daemon: DaemonProcess, remote: TrainerClient, made: MadeSession
) -> None:
    for wrong, sentence in (({"commands": b"x" * 600_000}, "the most"), ({"pictures": [0]}, "there is no seat 0")):
        with ExitStack() as stack:
            call = raw_call(daemon, remote, pb.LiveInput(run_id=made.run_id, **wrong), stack)
            with pytest.raises(Exception, match=sentence):
                list(call)
    wait_for("nobody to be left", lambda: made.server.watchers == 0)
