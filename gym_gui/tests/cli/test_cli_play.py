"""``mosaic play`` and ``mosaic watch`` in a real terminal: keys in, pictures out, and the terminal as it was."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from gym_gui.cli.live import view as view_module
from gym_gui.cli.live.picture import half_blocks
from gym_gui.cli.live.seats import side_by_side
from gym_gui.cli.live.terminal import keys_in, quiet_keyboard, whole_screen
from gym_gui.cli.live.view import LiveView, Shown, advised, screen
from gym_gui.tests.support.cleanrl_runs import submit_ppo
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess, wait_for
from gym_gui.tests.support.live_sessions import elsewhere
from gym_gui.tests.support.terminal import Terminal
from mosaic_protocol.live import messages as m
from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.frames import Frame
from mosaic_protocol.live.key_map import Binding, KeyMap
from mosaic_worker.live.server import LiveServer
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.tests.dropped import dropped_policies

pytestmark = pytest.mark.usefixtures("workers_train")

RIGHT, DOWN, BACK = b"\x1b[C", b"\x1b[B", b"\x7f"
LAKE = ("play", "--env-id", "FrozenLake-v1", "--no-slippery")
NORMAL_SCREEN, OTHER_SCREEN = "\x1b[?1049l", "\x1b[?1049h"


@contextmanager
def terminal(daemon: DaemonProcess, *words: str, lines: int = 30) -> Iterator[Terminal]:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    with closing(Terminal(mosaic, *words, lines=lines, columns=100, keyboard=True)) as opened:
        yield opened


def shows(screen: Terminal, text: str) -> None:
    screen.wait_until(text, lambda: text in screen.written)


def require_as_before(screen: Terminal) -> None:
    assert screen.modes_now() == screen.modes
    assert screen.written.rfind(NORMAL_SCREEN) > screen.written.rfind(OTHER_SCREEN) >= 0
    assert screen.written.rfind("\x1b[?25h") > screen.written.rfind("\x1b[?25l"), "the cursor is back"


def test_a_lake_is_crossed_in_a_terminal_and_every_step_is_recorded(daemon: DaemonProcess) -> None:
    with terminal(daemon, *LAKE) as lake:
        shows(lake, "Your move.")
        assert lake.modes_now() != lake.modes, "single keys are read"
        mosaic = CommandLine(daemon.paths.root, daemon.env)
        # The terminal hears from the session itself, perhaps before the daemon does.
        wait_for("the daemon to know", lambda: [run for run in daemon.client.runs().runs if run.state == "EXEC"])
        listed = mosaic("runs", "--state", "playing").out.splitlines()
        assert len(listed) == 2 and "playing" in listed[1] and "playing" in mosaic("show", "last").out
        assert "No run is like that" in mosaic("runs", "--state", "training").out, "it learns nothing"
        lake.type(DOWN + RIGHT)
        shows(lake, "return 0: any key begins the next episode")
        lake.type(BACK + BACK + RIGHT + RIGHT + DOWN + DOWN + DOWN + RIGHT)  # the fall is undone
        shows(lake, "return 1: any key begins the next episode")
        lake.type(b"q")
        assert lake.wait_for_the_end() == 0, lake.written
        require_as_before(lake)
        last = lake.written.rpartition(NORMAL_SCREEN)[2]
    assert "play-frozenlake-v1-s1" in last and "1 episode, 8 steps, best return 1" in last
    (run,) = daemon.client.runs().runs
    assert (run.outcome, run.worker_type, run.algo) == ("completed", "play", "play")
    assert [step.action for step in daemon.client.steps(run.run_id)] == [1, 2, 2, 2, 1, 1, 1, 2]
    (episode,) = daemon.client.episodes(run.run_id)
    assert (episode.length, episode.total_reward, episode.outcome) == (6, 1.0, "terminated"), "the final line"
    replayed = mosaic("replay", run.run_id, "--episode", "0")
    assert (replayed.code, "verified 6/6 steps" in replayed.out) == (0, True), replayed.out + replayed.err
    shown = mosaic("steps", run.run_id).out.splitlines()
    assert [line.endswith("(undone)") for line in shown] == [True, True] + [False] * 6
    assert shown[2].endswith("(instead of 2 steps that were undone)")
    assert "has no checkpoint, and is over (completed)" in mosaic("watch", run.name).err


def test_a_seat_is_handed_over_with_tab_and_pictures_are_blocks(daemon: DaemonProcess) -> None:
    with terminal(daemon, "play", "--env-id", "CartPole-v1", "--show", "blocks") as pole:
        shows(pole, "A key begins.")
        shows(pole, "▀")
        pole.type(b"\t")
        shows(pole, "chance")
        pole.type(b"\tp")
        shows(pole, "Paused.")
        pole.type(b"\x03")
        assert pole.wait_for_the_end() == 0, pole.written
        require_as_before(pole)
    (run,) = daemon.client.runs().runs
    assert "random" in {step.actor for step in daemon.client.steps(run.run_id)}


def test_a_session_is_played_where_only_the_daemon_can_be_reached(daemon: DaemonProcess, tmp_path: Path) -> None:
    """As behind a socket that SSH forwards: neither the run's folder nor its pictures are on this machine."""
    paths = elsewhere(daemon, tmp_path / "elsewhere")
    mosaic = CommandLine(paths.root, {**daemon.env, "MOSAIC_HOME": str(paths.root)})
    words = ("play", "--env-id", "CartPole-v1", "--show", "blocks")
    with closing(Terminal(mosaic, *words, lines=30, columns=100, keyboard=True)) as pole:
        shows(pole, "A key begins.")
        shows(pole, "▀")
        pole.type(b"\t")
        shows(pole, "chance")
        daemon.kill()
        shows(pole, "sessions go on without it. Joining it again")
        seen = len(pole.written)
        daemon.start()
        pole.wait_until("the session again", lambda: "chance" in pole.written[seen:])
        pole.type(b"q")
        assert pole.wait_for_the_end() == 0, pole.written
        require_as_before(pole)
    assert not paths.runs.exists()
    (run,) = daemon.client.runs().runs
    assert run.outcome == "completed"


def test_a_checkpoint_is_watched_and_taken_over(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(dropped_policies(tmp_path / "workers"))
    checkpoint = new_checkpoint(tmp_path / "checkpoints")
    with terminal(daemon.start(), "watch", str(checkpoint), "--speed", "0.25") as pole:
        shows(pole, "the policy")
        shows(pole, "push")
        pole.type(b"\t")
        shows(pole, "A key begins.")
        pole.type(b"\x1b[D")
        shows(pole, "\x1b[33myou")
        pole.type(b"q")
        assert pole.wait_for_the_end() == 0, pole.written
    (run,) = daemon.client.runs().runs
    assert "policy" in {step.actor for step in daemon.client.steps(run.run_id)}
    with terminal(daemon, "play", "--from-run", "last", "--step", "1") as again:
        shows(again, "The policy would: push")  # the one that played then, which nobody named
        again.type(b"\t")
        shows(again, "the policy")
        again.type(b"q")
        assert again.wait_for_the_end() == 0, again.written


def test_two_checkpoints_are_watched_side_by_side(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> None:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(dropped_policies(tmp_path / "workers"))
    one, two = (str(new_checkpoint(tmp_path / name, step=step)) for name, step in (("a", 1000), ("b", 2000)))
    words = ("watch", one, two, "--speed", "0", "--episodes", "2")
    with terminal(daemon.start(), *words) as pole:
        shows(pole, "toy_discrete at step 1,000")
        shows(pole, "toy_discrete at step 2,000")
        assert pole.wait_for_the_end() == 0, pole.written
        last = pole.written.rpartition(NORMAL_SCREEN)[2]
    assert "2 episodes" in last and "SEED  seat-1  seat-2" in last
    (run,) = daemon.client.runs().runs
    episodes = list(daemon.client.episodes(run.run_id))
    assert sorted((episode.seed, episode.agent_id) for episode in episodes) == [
        (1, "seat-1"),
        (1, "seat-2"),
        (2, "seat-1"),
        (2, "seat-2"),
    ]


def test_a_run_is_watched_while_it_trains_and_trains_on(daemon: DaemonProcess) -> None:
    run_id = submit_ppo(daemon, total_timesteps=100_000_000)
    folder = daemon.paths.run(run_id).directory
    wait_for("the run to be there to be watched", lambda: m.socket_of(folder).exists())
    with terminal(daemon, "watch", run_id, "--show", "blocks") as training:
        shows(training, "it trains")
        shows(training, "steps/s")
        shows(training, "▀")
        training.type(b"q")
        assert training.wait_for_the_end() == 0, training.written
        require_as_before(training)
    assert daemon.client.run(run_id).state == "EXEC", "it goes on"
    daemon.client.cancel(run_id)
    daemon.wait_over(run_id)


def test_the_terminal_is_put_back_when_the_session_is_killed(daemon: DaemonProcess) -> None:
    with terminal(daemon, *LAKE) as lake:
        shows(lake, "Your move.")
        (run,) = daemon.client.runs().runs
        daemon.client.cancel(run.run_id, "enough")
        assert lake.wait_for_the_end() == 5
        require_as_before(lake)
        assert "enough" in lake.written.rpartition(NORMAL_SCREEN)[2]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_put_back_and_the_session_ended_by_a_signal(daemon: DaemonProcess, number: int) -> None:
    with terminal(daemon, *LAKE) as lake:
        shows(lake, "Your move.")
        lake.process.send_signal(number)
        assert lake.wait_for_the_end() == 130
        require_as_before(lake)
    (run,) = daemon.client.runs().runs
    wait_for("the session to end", lambda: daemon.client.run(run.run_id).state == "TERM")


def test_the_session_goes_on_while_the_daemon_is_dead(daemon: DaemonProcess) -> None:
    with terminal(daemon, *LAKE) as lake:
        shows(lake, "Your move.")
        daemon.kill()
        lake.type(RIGHT)
        shows(lake, "Last: right.")
        daemon.start()
        lake.type(b"q")
        assert lake.wait_for_the_end() == 0
        assert "1 step." in lake.written.rpartition(NORMAL_SCREEN)[2]
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    assert "has no episode that ended; episode 0 did not" in mosaic("episodes", "last").err


def test_what_cannot_be_played_is_refused_before_anything_starts(daemon: DaemonProcess) -> None:
    for words, said in (
        (("play", "--env-id", "FrozenLak-v1"), "did you mean"),
        (("play", "--env-id", "CartPole-v1", "--gravity", "3"), "--gravity is not a setting of CartPole-v1"),
        (("play", "--env-id", "CartPole-v1", "--colour", "3"), "has no flag --colour"),
        (("watch", "nothing"), "there are no checkpoints yet"),
    ):
        with terminal(daemon, *words) as refused:
            assert refused.wait_for_the_end() in (2, 3), refused.written
            assert said in refused.written.replace("\r\n", " ")
            assert OTHER_SCREEN not in refused.written
    assert not daemon.client.runs().runs


def test_without_a_terminal_it_says_so(tmp_path: Path) -> None:
    answer = CommandLine(tmp_path)("play", "--env-id", "FrozenLake-v1")
    assert (answer.code, "needs a terminal" in answer.err) == (2, True)


# ---- pieces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"", []),
        (b"aB3", ["a", "b", "3"]),
        (b"\x1b[A\x1bOB\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b" \r\t\x7f", ["space", "enter", "tab", "backspace"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[1;5A\x1b[15~x", ["x"]),
        (b"\x03\x04", ["interrupt", "interrupt"]),
        ("é\x00".encode(), []),
    ],
)
def test_keys_are_known_by_their_bytes(data: bytes, keys: list[str]) -> None:
    assert keys_in(data) == keys


def test_keys_before_and_after_a_session_are_neither_echoed_nor_played() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)

    def strike(keys: bytes) -> None:
        os.write(ours, keys)
        assert select.select([theirs], [], [], HANG_GUARD)[0], "it arrives a moment later"

    try:
        with quiet_keyboard(theirs):
            strike(b"\x1b[D\n")
            with whole_screen(theirs, theirs):
                assert not select.select([theirs], [], [], 0)[0], "what was struck while it started"
                os.write(ours, b"x")
                assert os.read(theirs, 1) == b"x"
            strike(b"\x1b[C\n")
        assert termios.tcgetattr(theirs) == before
        assert not select.select([theirs], [], [], 0)[0], "the shell gets none of it"
        assert b"^[[" not in os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_picture_keeps_its_proportions_and_colours() -> None:
    red, blue = bytes([255, 0, 0]), bytes([0, 0, 255])
    frame = Frame(1, 40, 40, red * 40 * 20 + blue * 40 * 20)
    lines = half_blocks(frame, 20, 10, all_colours=True)
    assert len(lines) == 10 and all(line.count("▀") == 20 for line in lines)
    assert lines[0].startswith("\x1b[38;2;255;0;0;48;2;255;0;0m") and lines[-1].startswith("\x1b[38;2;0;0;255")
    assert lines[0].count("\x1b[38") == 1, "colours are written where they change"
    assert half_blocks(frame, 20, 10, all_colours=False)[0].startswith("\x1b[38;5;196;48;5;196m")
    assert half_blocks(frame, 0, 0, all_colours=True) == []
    assert len(half_blocks(Frame(1, 3, 3, bytes(27)), 80, 40, all_colours=True)) == 2, "small ones stay small"


HELLO = m.Hello("Game-v0", "other", KeyMap((Binding(("up",), 1, "jump"),)), True, 4.0)


def test_characters_are_drawn_where_the_terminal_is_poor(monkeypatch: pytest.MonkeyPatch) -> None:
    state, frame = m.State(text="SFFG"), Frame(1, 40, 40, bytes(4800))

    def drawn(lines: int, shown: Shown = "auto") -> str:
        return "".join(screen(HELLO, state, frame, 80, lines, shown=shown, refusals=[]))

    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "▀" in drawn(40) and "SFFG" not in drawn(40)
    assert "SFFG" in drawn(15) and "SFFG" in drawn(40, "text")
    monkeypatch.delenv("COLORTERM")
    assert "SFFG" in drawn(40) and "▀" in drawn(40, "blocks")
    assert "▀" not in drawn(40, "none") and "SFFG" not in drawn(40, "none")


def test_what_an_environment_draws_cannot_steer_the_terminal() -> None:
    state = m.State(text="\x1b[41mS\x1b[0m\x1b[2J\x1b]0;title\x07", problem="bad\x1b[2J\nthing")
    lines = screen(HELLO, state, None, 80, 24, shown="auto", refusals=[])
    text = "\n".join(lines)
    assert "\x1b[41mS\x1b[0m" in text and "↑ jump" in text
    assert "\x1b[2J" not in text and "\x1b]" not in text and "\x07" not in text


def test_a_session_that_answers_no_key_is_said_to_be_silent_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "_ANSWER_SECONDS", 0.2)
    keyboard, keys = os.pipe()
    painted: list[bytes] = []
    hello = m.Hello("Game-v0", "", KeyMap(), True, 30.0)
    with ExitStack() as opened:
        server = LiveServer(tmp_path, hello, lambda command: None, lambda: "")
        opened.callback(os.close, keyboard)
        opened.callback(os.close, keys)
        client = opened.enter_context(LiveClient(tmp_path))
        view = LiveView(client, m.HandOver("random"))
        watching = threading.Thread(target=_until_it_ends, args=(view, keyboard, painted.append))
        watching.start()
        server.publish(m.State(step=1))
        wait_for("the first screen", lambda: painted)
        os.write(keys, b"p")
        wait_for("the silence to be said", lambda: b"does not answer" in painted[-1])
        server.publish(m.State(step=2))
        wait_for("it to be taken back", lambda: b"does not answer" not in painted[-1])
        os.write(keys, b"p")
        server.publish(m.State(held=True))
        wait_for("the pause to be said", lambda: b"The run is paused" in painted[-1])
        assert not view.is_silent, "that nothing moves then is no wonder"
        server.close()
        watching.join(HANG_GUARD)
        assert not watching.is_alive()


def _until_it_ends(view: LiveView, keyboard: int, write: Callable[[bytes], None]) -> None:
    with suppress(SessionAwayError):
        view.run(keyboard, write)


def test_keys_steer_the_session_and_all_others_are_the_games() -> None:
    class Told:
        state = m.State()

    told, other = Told(), m.HandOver("random")
    view = LiveView(told, other)  # type: ignore[arg-type]
    assert [view.command_for(key) for key in ("q", "interrupt", "p", ".", "r", "n", "tab", "+", "-", "up")] == [
        m.End(),
        m.End(),
        m.Pause(),
        m.SingleStep(),
        m.Restart("same"),
        m.Restart("next"),
        other,
        m.Speed(2.0),
        m.Speed(0.5),
        m.Press("up"),
    ]
    told.state = m.State(paused=True, actor="policy", speed=8.0)
    keys = ("p", "tab", "+", "backspace")
    assert [view.command_for(key) for key in keys] == [m.Go(), m.HandOver("human"), m.Speed(8.0), m.Undo()]
    told.state = m.State(seats=(m.SeatState("seat-1", actor="policy"), m.SeatState("seat-2")))
    assert view.command_for("tab") == m.HandOver("random", seat=2), "the person's seat"
    told.state = m.State(seats=(m.SeatState("seat-1", actor="policy"), m.SeatState("seat-2", actor="random")))
    assert view.command_for("tab") == m.HandOver("human", seat=2), "back into the seat of before"


def test_seats_are_shown_beside_each_other_where_there_is_room() -> None:
    red = "\x1b[31mred and long\x1b[0m"
    assert side_by_side([["a", red], ["b"]], 64) == ["a" + " " * 31 + "b", red]
    assert side_by_side([[red * 3], ["b"]], 64) == [(red * 2 + "\x1b[31mred an\x1b[0m  b")]
    assert side_by_side([["a"], ["b"]], 40) == ["a", "", "b", ""]


def test_what_a_policy_would_do_is_said_to_the_person_alone() -> None:
    state = m.State(prefers="push left", advice=(0.75, 0.25), advice_kind="probability", value=12.5)
    assert advised(state) == ["\x1b[34mThe policy would: push left (75%), it expects 12.5\x1b[0m"]
    assert not advised(m.State(prefers="push left", actor="policy")) and not advised(m.State())


def test_that_a_policy_is_being_loaded_is_said_also_when_the_episode_is_over() -> None:
    def said(state: m.State, coming: bool = False) -> str:
        return "\n".join(screen(HELLO, state, None, 80, 24, shown="none", refusals=[], coming=coming))

    for state in (m.State(loading="/c"), m.State(loading="/c", over="terminated"), m.State(loading="/c", paused=True)):
        assert "The policy is being loaded; you play on until it is ready. Tab calls it off." in said(state)
    assert "; chance plays on" in said(m.State(loading="/c", actor="random"))
    assert "The policy is being loaded; it will watch." in said(m.State(), coming=True)
    assert "loaded" not in said(m.State())
