"""Clips of training: playable, short, off the training path, and no reason for the training to end or to differ."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import av
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mosaic_worker.policies.acting import LoadedPolicy
from mosaic_worker.policies.evaluation_team import Task
from mosaic_worker.recording import clip_encoder, video
from mosaic_worker.recording.video import MAX_FRAMES, MAX_WAITING_FRAMES, ClipRecorder, attach, clips, is_recorded
from mosaic_worker.state import env_state

PATIENCE = 60.0


class Painter(gym.Env[Any, Any]):
    """Episodes of `length` steps; its picture is as bright as the number of the step."""

    observation_space = gym.spaces.Box(0, 255, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - the interface's own form

    def __init__(self, length: int = 5, shape: tuple[int, ...] = (161, 203, 3), picture: Any = None) -> None:
        self.render_mode = "rgb_array"
        self.length, self.shape, self.picture = length, shape, picture
        self.steps, self.renders = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps >= self.length, False, {}

    def render(self) -> Any:
        self.renders += 1
        if callable(self.picture):
            return self.picture()
        return np.full(self.shape, self.steps, np.uint8) if self.picture is None else self.picture


def play(env: gym.Env[Any, Any], episodes: int) -> None:
    for _ in range(episodes):
        env.reset()
        while not env.step(0)[2]:
            pass


def recorded(env: Painter, directory: Path, episodes: int = 1) -> list[Path]:
    """The clips of a few episodes, in the order of the episodes."""
    wrapped = clips(env)
    attach(wrapped, directory, lambda: 7)
    play(wrapped, episodes)
    close_patiently(wrapped)
    return sorted(directory.glob("*.mp4"), key=lambda file: int(file.name.split("-")[1]))


def close_patiently(wrapped: gym.Env[Any, Any]) -> None:
    assert isinstance(wrapped, video.Clips) and wrapped._render_recorder is not None
    wrapped._render_recorder.close(PATIENCE)
    wrapped.close()


def brightness(file: Path) -> list[int]:
    """The middle pixel of every frame, as a player would show it."""
    with av.open(str(file)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return [int(frame[frame.shape[0] // 2, frame.shape[1] // 2, 0]) for frame in frames]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[ClipRecorder]:
    one = ClipRecorder(tmp_path / "videos", lambda: 3)
    yield one
    one.close(PATIENCE)


def test_the_first_episodes_the_cubes_and_then_every_thousandth_are_recorded() -> None:
    chosen = [episode for episode in range(3001) if is_recorded(episode)]
    assert chosen == [0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000, 2000, 3000]


def test_a_clip_shows_the_episode_and_plays_everywhere(tmp_path: Path) -> None:
    (file,) = recorded(Painter(length=5), tmp_path)
    assert file.name == "episode-0-step-7.mp4"
    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height) == (204, 162)  # even, as the format wants it
        assert stream.average_rate == 20
    assert np.allclose(brightness(file), [0, 1, 2, 3, 4, 5], atol=2)
    assert os.listdir(tmp_path) == [file.name]


def test_each_chosen_episode_gets_a_clip_of_its_own(tmp_path: Path) -> None:
    files = recorded(Painter(length=3), tmp_path, episodes=10)
    assert [file.name for file in files] == [f"episode-{number}-step-7.mp4" for number in (0, 1, 8)]
    assert [len(brightness(file)) for file in files] == [4, 4, 4]


def test_a_clip_ends_after_two_hundred_frames_and_so_does_the_rendering(tmp_path: Path) -> None:
    env = Painter(length=500, shape=(160, 160, 3))
    (file,) = recorded(env, tmp_path)
    assert len(brightness(file)) == MAX_FRAMES == 200
    assert env.renders == MAX_FRAMES


def test_nothing_is_rendered_before_it_is_attached_nor_in_other_episodes(tmp_path: Path) -> None:
    env = Painter(length=3)
    wrapped = clips(env)
    play(wrapped, 2)
    assert env.renders == 0
    attach(wrapped, tmp_path, lambda: 0)
    play(wrapped, 5)  # episodes 2 to 6
    assert env.renders == 0
    wrapped.close()
    assert list(tmp_path.iterdir()) == []


def test_an_episode_that_has_begun_is_recorded_from_where_it_is(tmp_path: Path) -> None:
    env = Painter(length=4)
    wrapped = clips(env)
    wrapped.reset()
    wrapped.step(0)
    attach(wrapped, tmp_path, lambda: 1)
    while not wrapped.step(0)[2]:
        pass
    close_patiently(wrapped)
    assert np.allclose(brightness(tmp_path / "episode-0-step-1.mp4"), [2, 3, 4], atol=2)


def test_environments_in_a_vector_are_found_below_other_wrappers(tmp_path: Path) -> None:
    def make() -> gym.Env[Any, Any]:
        return gym.wrappers.TimeLimit(clips(Painter(length=3)), 100)

    envs = SyncVectorEnv([make, lambda: Painter(length=3)], autoreset_mode=AutoresetMode.SAME_STEP)
    attach(envs, tmp_path, lambda: 0)
    envs.reset()
    for _ in range(4):
        envs.step(np.zeros(2, np.int64))
    close_patiently(vars(envs.envs[0])["env"])
    envs.close()
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["episode-0-step-0.mp4", "episode-1-step-0.mp4"]


def broken_driver() -> Any:
    raise RuntimeError("Cannot initialize a EGL device display.")


@pytest.mark.parametrize(
    ("picture", "sentence"),
    [
        (lambda: None, "got NoneType"),
        (np.zeros((4, 4, 3), np.float32), "got float32 (4, 4, 3)"),
        (np.zeros((4, 4, 7), np.uint8), "got uint8 (4, 4, 7)"),
        (np.zeros((0, 4, 3), np.uint8), "is empty"),
        (broken_driver, "egl needs Debian's libegl1"),
    ],
    ids=["nothing", "floats", "colours", "empty", "driver"],
)
def test_what_cannot_be_shown_is_one_sentence_and_training_goes_on(
    picture: Any, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    assert recorded(Painter(picture=picture), tmp_path, episodes=3) == []
    told = capfd.readouterr().err
    assert sentence in told and told.endswith("Training goes on.\n") and told.count("\n") == 1


def test_a_picture_of_another_size_ends_the_recording_but_not_the_clip(
    tmp_path: Path, recorder: ClipRecorder, capfd: pytest.CaptureFixture
) -> None:
    assert recorder.wants_frames(0)
    recorder.add(np.zeros((160, 160, 3), np.uint8))
    recorder.add(np.zeros((160, 162, 3), np.uint8))
    assert not recorder.wants_frames(0) and not recorder.wants_frames(1)
    recorder.close(PATIENCE)
    assert "must have one size" in capfd.readouterr().err
    assert len(brightness(tmp_path / "videos" / "episode-0-step-3.mp4")) == 1


def test_a_missing_library_is_one_sentence_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(video, "find_spec", lambda name: None)
    env = Painter()
    assert recorded(env, tmp_path) == [] and env.renders == 0
    assert "mosaic_worker.extras --set video" in capfd.readouterr().err


def test_a_full_disk_ends_the_recording_leaves_no_draft_and_is_said(
    tmp_path: Path, recorder: ClipRecorder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    def full(path: Path, frames: Any, rate: int) -> int:
        path.write_bytes(b"the beginning")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(clip_encoder, "encode", full)
    assert recorder.wants_frames(0)
    recorder.add(np.zeros((160, 160, 3), np.uint8))
    recorder.close(PATIENCE)
    assert "No space left on device" in capfd.readouterr().err
    assert list((tmp_path / "videos").iterdir()) == []


@dataclass(frozen=True)
class SlowEncoder:
    holds: threading.Event = field(default_factory=threading.Event)
    """Set when it has a first frame and waits before the second."""
    may_go_on: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def slow_encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowEncoder]:
    """An encoder that takes its second frame only when it may."""
    events, original = SlowEncoder(), clip_encoder.encode

    def held(path: Path, frames: Iterator[Any], rate: int) -> int:
        def slowly() -> Iterator[Any]:
            for number, frame in enumerate(frames):
                yield frame
                if number == 0:
                    events.holds.set()
                    events.may_go_on.wait(PATIENCE)

        return original(path, slowly(), rate)

    monkeypatch.setattr(clip_encoder, "encode", held)
    yield events
    events.may_go_on.set()


def add_clip(recorder: ClipRecorder, episode: int, frames: int) -> bool:
    wanted = recorder.wants_frames(episode)
    for _ in range(frames):
        recorder.add(np.zeros((160, 160, 3), np.uint8))
    return wanted


def test_a_slow_encoder_costs_whole_clips_which_are_counted_and_no_time(
    tmp_path: Path, recorder: ClipRecorder, slow_encoder: SlowEncoder, capfd: pytest.CaptureFixture
) -> None:
    assert add_clip(recorder, 0, MAX_WAITING_FRAMES // 2)
    assert add_clip(recorder, 1, MAX_WAITING_FRAMES)
    assert not add_clip(recorder, 8, 10)
    assert not add_clip(recorder, 27, 10)
    slow_encoder.may_go_on.set()
    recorder.close(PATIENCE)
    told = capfd.readouterr().err
    assert "The video of episode 8 is skipped" in told and "2 video clips were skipped" in told
    lengths = {file.name: len(brightness(file)) for file in (tmp_path / "videos").iterdir()}
    assert lengths == {
        "episode-0-step-3.mp4": MAX_WAITING_FRAMES // 2,
        "episode-1-step-3.mp4": MAX_WAITING_FRAMES,
    }


def test_closing_ends_a_clip_that_is_not_written_in_time_where_it_is(
    tmp_path: Path, slow_encoder: SlowEncoder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(clip_encoder, "_LAST_PATIENCE", PATIENCE)
    recorder = ClipRecorder(tmp_path, lambda: 0)
    add_clip(recorder, 0, 20)
    assert slow_encoder.holds.wait(PATIENCE)
    encoder = recorder._encoder
    assert encoder is not None

    def go_on_once_hurried() -> None:
        deadline = time.monotonic() + PATIENCE
        while not encoder._hurry and time.monotonic() < deadline:
            time.sleep(0.01)
        slow_encoder.may_go_on.set()

    helper = threading.Thread(target=go_on_once_hurried)
    helper.start()
    recorder.close(patience=0.0)
    helper.join()
    assert "may be shorter" in capfd.readouterr().err
    assert len(brightness(tmp_path / "episode-0-step-0.mp4")) == 1


def test_an_evaluation_waits_for_its_clips_and_training_hardly_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    written = clip_encoder.ClipEncoder.close

    def close(encoder: clip_encoder.ClipEncoder, patience: float) -> bool:
        waited.append(patience)
        return written(encoder, PATIENCE)

    monkeypatch.setattr(clip_encoder.ClipEncoder, "close", close)
    in_training = clips(Painter())
    attach(in_training, tmp_path / "training", lambda: 0)
    loaded = SimpleNamespace(make_env=lambda *_, **__: Painter(), manifest=SimpleNamespace(step=0))
    evaluated = Task(cast(LoadedPolicy, loaded), None, 1, deterministic=True, record=tmp_path / "evaluation")._env()
    for env in (in_training, evaluated):
        play(env, 1)
        env.close()
    assert waited[0] <= 5 and waited[1] >= 30


@pytest.mark.parametrize(
    ("shape", "size"),
    [((64, 64, 3), (192, 192)), ((84, 84), (168, 168)), ((210, 160, 1), (210, 160)), ((3000, 2000, 3), (1000, 668))],
)
def test_small_and_grey_pictures_become_large_and_coloured_and_huge_ones_smaller(
    shape: tuple[int, ...], size: tuple[int, int], tmp_path: Path, recorder: ClipRecorder
) -> None:
    assert recorder.wants_frames(0)
    recorder.add(np.full(shape, 77, np.uint8))
    recorder.close(PATIENCE)
    with av.open(str(tmp_path / "videos" / "episode-0-step-3.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.height, stream.width) == size


def test_frames_are_copied_before_the_environment_paints_over_them(tmp_path: Path) -> None:
    canvas = np.zeros((160, 160, 3), np.uint8)

    def paint() -> Any:
        canvas[:] += 10
        return canvas

    (file,) = recorded(Painter(length=5, picture=paint), tmp_path)
    assert np.allclose(brightness(file), [10, 20, 30, 40, 50, 60], atol=2)


def test_the_state_of_a_recorded_environment_is_complete_and_knows_nothing_of_the_recording(tmp_path: Path) -> None:
    envs = SyncVectorEnv([lambda: clips(Painter())], autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=1)
    before = env_state.capture(envs, {})
    attach(envs, tmp_path, lambda: 0)
    assert env_state.capture(envs, {}) == before
    envs.step(np.zeros(1, np.int64))
    assert env_state.capture(envs, {})["complete"]
    envs.close()


def test_without_a_display_simulators_draw_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    attach(clips(Painter()), tmp_path, lambda: 0)
    assert os.environ.pop("MUJOCO_GL") == "egl"
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    attach(clips(Painter()), tmp_path, lambda: 0)
    assert os.environ["MUJOCO_GL"] == "osmesa"


def test_mujoco_is_filmed_without_a_display(tmp_path: Path) -> None:
    env = clips(gym.make("InvertedPendulum-v5", render_mode="rgb_array"))
    attach(env, tmp_path, lambda: 0)
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros(1, np.float32))
    close_patiently(env)
    assert len(brightness(tmp_path / "episode-0-step-0.mp4")) >= 2
