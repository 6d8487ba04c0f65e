"""``mosaic arena`` with real processes: the same seeds for all, nothing twice, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gym_gui.services.arena.film import smaller
from gym_gui.services.arena.played import read_played
from gym_gui.services.arena.store import ArenaStore
from mosaic_protocol.live.frames import Frame
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.png import data_url
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording

_NAME = "lake"
_BEGIN = ["--env-id", "FrozenLake-v1", "--name", _NAME]


def command(home: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "gym_gui.cli", "--home", str(home), "arena", *words]


def arena(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(home, *words), capture_output=True, text=True, timeout=300, check=False)


def told(home: Path, *words: str) -> dict[str, Any]:
    found = arena(home, *words, "--json")
    assert found.returncode == 0, found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def recordings(home: Path) -> dict[Path, int]:
    """Every file of steps with its time of change: what is not played again is not written again."""
    place = MosaicPaths(home).arena(_NAME) / "entries"
    return {file: file.stat().st_mtime_ns for file in place.rglob("*") if file.is_file()}


def _film(page: str) -> dict[str, Any]:
    film: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>", maxsplit=1)[0])["film"]
    return film


def _simulated(told: dict[str, Any]) -> dict[str, Any]:
    """What a film of this episode alone has to hold."""
    chunks = Recording.at(Path(told["recording"])).chunks(told["episode"])
    episode = next(iter(read_episodes(chunks, told["episode"])))
    pictures: list[str] = []
    numbers = []
    with closing(gym.make("FrozenLake-v1", render_mode="rgb_array")) as env:
        env.reset(seed=told["seed"])
        for place in range(len(episode) + 1):
            picture: Any = env.render()
            url = data_url(smaller(Frame(1, picture.shape[1], picture.shape[0], picture.tobytes())))
            pictures += [url] if url not in pictures else []
            numbers.append(pictures.index(url))
            if place < len(episode):
                env.step(int(episode.action(place)))
    totals = [0.0, *np.cumsum(episode.rewards).tolist()]
    reel = {"pictures": numbers, "totals": totals, "length": len(episode)}
    return {"seed": told["seed"], "places": list(range(len(episode) + 1)), "pictures": pictures, "reels": [reel]}


def test_players_meet_on_the_same_seeds_are_verified_and_others_come_later(tmp_path: Path) -> None:
    first = told(tmp_path, *_BEGIN, "--seeds", "3-7", "random", "--out", str(tmp_path / "r.html"))
    (chance,) = first["entries"]
    assert [one["seed"] for one in chance["episodes"]] == [3, 4, 5, 6, 7]
    assert chance["verified"] == 5 and first["complete"] and not first["notes"]
    text = (tmp_path / "r.html").read_text()
    assert "How they did" in text and "img-src data:" in text
    assert _film(text) == _simulated(chance["episodes"][_film(text)["seed"] - 3])
    before = recordings(tmp_path)
    second = told(tmp_path, "add", _NAME, "optimal")
    assert {one["label"]: one["verified"] for one in second["entries"]} == {"Random": 5, "Optimal": 5}
    assert before.items() <= recordings(tmp_path).items(), "what was played is not played again"
    assert next(one for one in second["entries"] if one["label"] == "Random")["episodes"] == chance["episodes"]
    again = told(tmp_path, *_BEGIN, "--seeds", "3-7", "random", "optimal")
    assert recordings(tmp_path).keys() == (before.keys() | recordings(tmp_path).keys()) and again["complete"]


def test_after_kill_9_nothing_is_lost_and_nothing_is_played_twice(tmp_path: Path) -> None:
    seeds = list(range(600))
    words = command(tmp_path, *_BEGIN, "--seeds", "0-599", "optimal")
    playing = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    folder = MosaicPaths(tmp_path).arena(_NAME) / "entries" / "optimal"
    deadline = time.monotonic() + 120
    while not (folder.is_dir() and len(read_played(folder, seeds).results) >= 20):
        assert playing.poll() is None and time.monotonic() < deadline, "it ended before it could be killed"
        time.sleep(0.02)
    os.kill(playing.pid, signal.SIGKILL)
    playing.wait()
    store = ArenaStore(MosaicPaths(tmp_path))
    with store.playing(_NAME, patience=60.0):  # its programs are gone as well
        kept = read_played(folder, seeds)
    assert 20 <= len(kept.results) < len(seeds), "it was killed in the middle"
    found = told(tmp_path, "add", _NAME)
    (entry,) = found["entries"]
    whole = read_played(folder, seeds)
    assert entry["played"] == len(seeds) and entry["verified"] == len(seeds)
    assert whole.again == [] and whole.others == []
    for seed, result in kept.results.items():
        assert (whole.results[seed].recording, whole.results[seed].episode) == (result.recording, result.episode)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--env-id", "FrozenLak-v1", "random"], "did you mean 'FrozenLake-v1'"),
        (["--env-id", "FrozenLake-v1", "--seeds", "0-4,4", "random"], "seed 4 is named twice"),
        (["--env-id", "FrozenLake-v1", "random", "random"], "Random is named twice"),
        (["--env-id", "FrozenLake-v1", "optimum"], "did you mean 'optimal'"),
        (["--env-id", "FrozenLake-v1"], "nobody takes part"),
        (["--env-id", "CartPole-v1", "optimal"], "leave “optimal” out"),
        (["--env-id", "FrozenLake-v1", "--env-kwargs", "[1]", "random"], "must be a JSON object"),
        (["show", "nowhere"], "there is no arena 'nowhere'"),
    ],
)
def test_what_cannot_be_played_is_refused_in_a_sentence(tmp_path: Path, words: list[str], said: str) -> None:
    found = arena(tmp_path, *words)
    assert found.returncode == 2 and said in found.stderr, found.stderr
    assert "Traceback" not in found.stderr
    assert not list(MosaicPaths(tmp_path).arenas.glob("*/arena.json")), "nothing is begun"
