"""A film has its name when it is whole, and shows the steps that were played on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

from mosaic_worker.recording import clip_encoder
from play_worker import film as films
from play_worker.film import Film
from play_worker.stage import Stage
from play_worker.tests.by_hand import FAULTY, HANG_GUARD


@contextmanager
def filmed(folder: Path, **kwargs: Any) -> Iterator[tuple[Film, Any]]:
    with closing(Stage(FAULTY, {"env_kwargs": kwargs})) as stage, closing(Film(folder)) as film:
        stage.reset(1)
        yield film, SimpleNamespace(stage=stage, episode=0)


def play(film: Film, side: Any, episode: int, steps: int) -> None:
    side.episode = episode
    film.begin(side, 0)
    for _ in range(steps):
        side.stage.step(0)
        film.add(side)


def wait_for(probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def pictures(file: Path) -> int:
    with av.open(str(file)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_a_film_whose_steps_were_undone_never_has_its_name(tmp_path: Path) -> None:
    with filmed(tmp_path, length=1000) as (film, side):
        play(film, side, 0, 5)
        film.spoil()
        film.add(side)  # nothing more is filmed of it
        play(film, side, 1, 3)
        film.begin(side, 9)
        wait_for((tmp_path / "episode-1-step-0.mp4").exists)
        assert not (tmp_path / "episode-0-step-0.mp4").exists(), "the encoder is beyond it"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["episode-1-step-0.mp4", "episode-1-step-9.mp4"]
    assert pictures(tmp_path / "episode-1-step-0.mp4") == 4


def test_a_film_that_could_not_be_drawn_to_its_end_is_none(tmp_path: Path) -> None:
    with filmed(tmp_path, fault="raise", place="render", at=4, length=1000) as (film, side):
        play(film, side, 0, 8)
    assert list(tmp_path.iterdir()) == []


def test_a_film_that_is_not_written_in_time_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = clip_encoder.shown

    def slow(frame: Any) -> Any:
        time.sleep(0.05)
        return shown(frame)

    monkeypatch.setattr(clip_encoder, "shown", slow)
    monkeypatch.setattr(films, "_CLOSE_SECONDS", 0.1)
    with filmed(tmp_path, length=1000) as (film, side):
        play(film, side, 0, 40)
    wait_for(lambda: not list(tmp_path.iterdir()))
    assert "was not written in time" in capsys.readouterr().err
