"""An open replay: a real process that simulates an episode again, and a client that outlives whatever it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import av
import numpy as np
import pytest

from gym_gui.services import recorded_steps
from gym_gui.services.replay.open_replay import Gone, OpenReplay
from gym_gui.tests.support.daemon_process import WORKERS, wait_for
from mosaic_protocol.live.frames import FrameReader
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.replay_messages import Checked, Exported, Exporting, Ready, Shown, Trouble
from mosaic_worker.recording.clip_encoder import encode
from mosaic_worker.tests.replay.moody_envs import MOOD, MOODY, STEPS
from mosaic_worker.tests.replay.recorded import record

pytestmark = pytest.mark.usefixtures("workers_train")

T = TypeVar("T")


class Listener:
    """What a replay said, for a test to wait for."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self._pictures: FrameReader | None = None

    def all(self, kind: type[T]) -> list[T]:
        return [one for one in self.heard if isinstance(one, kind)]

    def wait(self, kind: type[T], holds: Callable[[T], bool] = lambda _: True) -> T:
        def found() -> T | None:
            gone = self.all(Gone)
            assert kind is Gone or not gone, gone
            return next((one for one in self.all(kind) if holds(one)), None)

        return wait_for(f"{kind.__name__} among {self.heard[-3:]}", found)

    def picture(self, shown: Shown) -> np.ndarray[Any, Any]:
        with_pictures = FrameReader(Path(shown.frames))
        try:
            frame = with_pictures.latest()
            assert frame is not None
            return np.frombuffer(frame.pixels, np.uint8).reshape(frame.height, frame.width, 3)
        finally:
            with_pictures.close()


Open = Callable[..., tuple[OpenReplay, Listener]]


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def opened(tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Record an episode, then open it in the given mood. Nothing of it is left running."""
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))
    replays: list[OpenReplay] = []

    def make(env_id: str = MOODY, mood: str = "", films: Path | None = None, **how: Any) -> tuple[OpenReplay, Listener]:
        monkeypatch.delenv(MOOD, raising=False)
        folder = record(tmp_path / "recording", env_id, **how).folder
        monkeypatch.setenv(MOOD, mood)
        listener = Listener()
        source = recorded_steps.of_folder(folder)
        replays.append(OpenReplay.of_episode(source, 0, paths, listener.heard.append, films))
        return replays[-1], listener

    yield make
    for replay in replays:
        replay.close()
        assert replay.pid is None or not Path(f"/proc/{replay.pid}").exists()
    assert not any(thread.name == "trainer-replay" for thread in threading.enumerate())


def is_done(checked: Checked) -> bool:
    return checked.done


def test_an_episode_is_verified_and_shown_at_any_step(opened: Open) -> None:
    replay, heard = opened()
    ready = heard.wait(Ready)
    assert (ready.steps, ready.seed, ready.fps) == (STEPS, 3, 25.0)
    verdict = heard.wait(Checked, is_done)
    assert (verdict.verified, verdict.steps, verdict.difference) == (STEPS, STEPS, None)
    for place in (17, 4, STEPS, 0):
        replay.seek(place)
        shown = heard.wait(Shown, lambda one, place=place: one.place == place and one is heard.all(Shown)[-1])
        assert (shown.reached, shown.source, shown.why) == (place, "simulation", "")
        assert heard.picture(shown).max() == place


def test_of_many_seeks_the_last_one_is_answered(opened: Open) -> None:
    replay, heard = opened()
    for place in range(STEPS + 1):
        replay.seek(place)
    heard.wait(Shown, lambda one: one.place == STEPS)
    assert len(heard.all(Shown)) <= 4


def test_a_place_that_there_is_not_is_the_nearest_one_and_the_next_seek_is_heard(opened: Open) -> None:
    replay, heard = opened()
    for place, nearest in ((STEPS + 500, STEPS), (-7, 0), (3, 3)):
        replay.seek(place)
        wanted = heard.wait(Shown, lambda one, at=nearest: one.place == at and one is heard.all(Shown)[-1])
        assert wanted.reached == nearest


def test_a_game_that_is_not_deterministic_is_named_and_what_comes_after_stays_unseen(opened: Open) -> None:
    replay, heard = opened(mood="wanders")
    verdict = heard.wait(Checked, is_done)
    assert verdict.difference is not None and verdict.difference.place == 5 and verdict.verified == 5
    assert verdict.repeats_itself is False
    replay.seek(20)
    shown = heard.wait(Shown, lambda one: one.place == 20)
    assert (shown.reached < 20, shown.source) == (True, "") and "leaves the recording at step 5" in shown.why
    replay.seek(3)
    assert heard.wait(Shown, lambda one: one.place == 3).source == "simulation"


def test_where_a_clip_of_the_episode_was_recorded_it_shows_the_rest(opened: Open, tmp_path: Path) -> None:
    pictures = (np.full((160, 160, 3), 8 * number, np.uint8) for number in range(12))
    (tmp_path / "films").mkdir()
    encode(tmp_path / "films" / "episode-0-step-9.mp4", pictures, 30)
    replay, heard = opened(mood="wanders", films=tmp_path / "films")
    heard.wait(Checked, is_done)
    replay.seek(10)
    shown = heard.wait(Shown, lambda one: one.place == 10)
    assert shown.source == "clip" and "leaves the recording" in shown.why
    assert abs(int(heard.picture(shown).mean()) - 80) < 8
    replay.seek(20)  # the clip is shorter than the episode
    assert heard.wait(Shown, lambda one: one.place == 20).source == ""


def test_a_game_that_raises_is_one_sentence_and_the_steps_before_can_be_seen(opened: Open) -> None:
    replay, heard = opened(mood="raises")
    verdict = heard.wait(Checked, is_done)
    assert verdict.stopped == "the environment failed at step 4: ArithmeticError: it broke"
    replay.seek(10)
    assert "it broke" in heard.wait(Shown, lambda one: one.place == 10).why
    replay.seek(2)
    assert heard.wait(Shown, lambda one: one.place == 2).source == "simulation"


def test_a_game_that_hangs_is_told_and_ends_with_its_client(opened: Open) -> None:
    replay, heard = opened(mood="hangs")
    heard.wait(Trouble, lambda one: "does not come back from the check" in one.why)
    began = time.monotonic()
    replay.close()
    assert time.monotonic() - began < 30 and heard.wait(Gone).why == ""


def test_a_game_that_crashes_takes_its_process_along_and_nothing_else(opened: Open) -> None:
    replay, heard = opened(mood="crashes")
    assert heard.wait(Gone).why == "the environment ended its process (it crashed)"
    replay.seek(3)  # nobody is there, and nothing happens


def test_a_killed_process_is_told(opened: Open) -> None:
    replay, heard = opened()
    heard.wait(Ready)
    assert replay.pid is not None
    os.kill(replay.pid, signal.SIGKILL)
    assert heard.wait(Gone).why == "the environment ended its process (it was killed)"


def test_a_game_that_cannot_be_drawn_is_checked_all_the_same(opened: Open) -> None:
    _, heard = opened(mood="cannot draw")
    assert heard.wait(Checked, is_done).verified == STEPS
    assert "cannot be drawn: RuntimeError: no paint" in heard.wait(Shown).why


def test_an_episode_without_a_seed_is_refused_in_a_sentence(opened: Open) -> None:
    _, heard = opened(seeds=(None,))
    assert "recorded without a seed" in heard.wait(Gone).why


def test_a_film_is_made_while_somebody_looks_around(opened: Open, tmp_path: Path) -> None:
    replay, heard = opened("CartPole-v1", most_steps=60)
    steps = heard.wait(Ready).steps
    replay.export(tmp_path / "film.mp4")
    replay.seek(steps // 2)
    made = heard.wait(Exported)
    assert (made.why, made.frames, made.cut) == ("", steps + 1, False)
    with av.open(str(tmp_path / "film.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == steps + 1
    heard.wait(Shown, lambda one: one.place == steps // 2)
    replay.export(tmp_path / "film.avi")
    assert "no known ending" in heard.wait(Exported, lambda one: one.file.endswith("avi")).why


def test_a_film_that_is_cancelled_leaves_nothing(opened: Open, tmp_path: Path) -> None:
    replay, heard = opened("Pendulum-v1", most_steps=200)
    heard.wait(Checked, is_done)
    replay.export(tmp_path / "film.gif")
    heard.wait(Exporting)
    replay.cancel_export()
    assert heard.wait(Exported).why == "cancelled"
    assert not list(tmp_path.glob("*film*"))


def test_a_clip_is_shown_picture_by_picture(
    tmp_path: Path, paths: MosaicPaths, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = tmp_path / "clip.mp4"
    encode(clip, (np.full((160, 160, 3), 20 * number, np.uint8) for number in range(10)), 15)
    heard = Listener()
    source = recorded_steps.of_folder(record(tmp_path / "other", MOODY, most_steps=1).folder)
    replay = OpenReplay.of_clip(clip, source.manifest, paths, heard.heard.append)
    try:
        ready = heard.wait(Ready)
        assert (ready.steps, ready.fps) == (9, 15.0)
        for place in (7, 2):
            replay.seek(place)
            shown = heard.wait(Shown, lambda one, place=place: one.place == place)
            assert abs(int(heard.picture(shown).mean()) - 20 * place) < 8
    finally:
        replay.close()


def test_the_process_ends_with_the_one_that_opened_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = record(tmp_path / "recording", MOODY).folder
    program = f"""
import os, time
from pathlib import Path
from gym_gui.services import recorded_steps
from gym_gui.services.replay.open_replay import OpenReplay
from mosaic_protocol.paths import MosaicPaths
source = recorded_steps.of_folder(Path({str(folder)!r}))
replay = OpenReplay.of_episode(source, 0, MosaicPaths(Path("home")), lambda _: None)
while replay.pid is None:
    time.sleep(0.01)
print(replay.pid, flush=True)
time.sleep(600)
"""
    variables = {**os.environ, "MOSAIC_WORKER_PATH": str(WORKERS)}
    with subprocess.Popen([sys.executable, "-c", program], env=variables, stdout=subprocess.PIPE, text=True) as opener:
        assert opener.stdout is not None
        pid = int(opener.stdout.readline())
        opener.kill()
    wait_for("the replay to end", lambda: not Path(f"/proc/{pid}").exists() or _is_dead(pid))


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
