"""What behaviour cloning makes of ten minutes at the keyboard, from the keys to the policy by MOSAIC's own commands."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.daemon import BenchDaemon, BenchmarkError, ScratchHome
from benchmarks.machine import ROOT
from benchmarks.report import Line, Section, Target

NAME = "play_to_policy"
TITLE = "From ten minutes of play to a policy"
METHOD = """\
FrozenLake-v1 4x4, slippery, played by a script at the keyboard of `mosaic play`: it reads the map on the terminal and
strikes an arrow key, the best one for the field that it stands on. 1,200 moves, as many as a person makes in ten
minutes at two a second. `mosaic datasets from-run last lake`, then `mosaic train bc --dataset lake` with 3 seeds (2,000
updates, 64 units) and `mosaic eval --episodes 500 --deterministic`. The demonstrator's return is that of its choices
over 5,000 episodes; its own few at the keyboard say it less exactly. Over seeds the interquartile mean counts."""
ENV_ID, MOVES, UPDATES, SEEDS, EPISODES = "FrozenLake-v1", 1200, 2000, (1, 2, 3), 500
KEYS = {0: b"\x1b[D", 1: b"\x1b[B", 2: b"\x1b[C", 3: b"\x1b[A"}
_PATIENCE = 60.0
_FIELD = re.compile(rb"\x1b\[41m")
_WAITING, _OVER = b"Your move.", b"any key begins the next episode"


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page. Raises BenchmarkError."""
    choices = best_choices()
    with ScratchHome() as paths, BenchDaemon(paths):
        mosaic = _Mosaic(paths.root)
        began = time.monotonic()
        _play(mosaic, choices, MOVES // 10 if quick else MOVES)
        played = time.monotonic() - began
        mosaic("datasets", "from-run", "last", "lake")
        shown = mosaic.json("datasets", "show", "lake")
        returns = [_learned(mosaic, seed) for seed in (SEEDS[:1] if quick else SEEDS)]
    demonstrated = _return_of(choices, 5000)
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line("return of BC − return of the demonstrator", [one - demonstrated for one in returns],
                 target=Target("≥", -0.05), over_seeds=True, is_iqm=True),
            Line("return of BC", returns, over_seeds=True, is_iqm=True),
            Line("return of the demonstrator", [demonstrated]),
            Line("its episodes at the keyboard: return", [float(shown["returns"]["mean"])]),
            Line("its episodes at the keyboard", [float(shown["episodes"])]),
            Line("steps in the dataset", [float(shown["steps"])]),
            Line("keys struck and answered a second", [(MOVES // 10 if quick else MOVES) / played], "/s"),
        ],
    )  # fmt: skip


def best_choices() -> list[int]:
    """For each field the action that leads to the goal most surely, by value iteration on the environment's table."""
    table: Any = gym.make(ENV_ID).unwrapped
    values, choices = np.zeros(len(table.P)), [0] * len(table.P)
    for _ in range(2000):
        for field, actions in table.P.items():
            worth = [
                sum(p * (r + 0.999 * values[to] * (not over)) for p, to, r, over in actions[one]) for one in actions
            ]
            choices[field], values[field] = int(np.argmax(worth)), max(worth)
    return choices


def _return_of(choices: Sequence[int], episodes: int) -> float:
    env, total = gym.make(ENV_ID), 0.0
    for seed in range(episodes):
        field, _ = env.reset(seed=seed)
        over = False
        while not over:
            field, reward, terminated, truncated, _ = env.step(choices[int(field)])
            total, over = total + float(reward), terminated or truncated
    return total / episodes


def _learned(mosaic: _Mosaic, seed: int) -> float:
    """The return of a policy that learned from what was played."""
    name = f"bc-{seed}"
    words = ["--total-timesteps", str(UPDATES), "--hidden-dim", "64", "--seed", str(seed), "--eval-freq", "0"]
    mosaic("train", "bc", "--dataset", "lake", *words, "--run-name", name)
    told = mosaic.json("eval", name, "--episodes", str(EPISODES), "--deterministic")
    return float(told["results"]["deterministic"]["mean"])


class _Mosaic:
    """The command line on a data root. A command that fails raises BenchmarkError with what it said."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "MOSAIC_HOME": str(home), "TERM": "xterm"}

    def __call__(self, *words: str) -> str:
        ended = subprocess.run(self.command(*words), **self.options, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise BenchmarkError(f"mosaic {' '.join(words)}: {ended.stderr.strip()[-300:]}")
        return str(ended.stdout)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    @property
    def options(self) -> dict[str, Any]:
        return {"cwd": ROOT, "env": self.environment}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "gym_gui.cli", *words]


def _play(mosaic: _Mosaic, choices: Sequence[int], moves: int) -> None:
    """A session in a terminal: no key is struck before the last one was answered, and `q` ends it after an episode."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    command = mosaic.command("play", "--env-id", ENV_ID, "--show", "text")
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, **mosaic.options)
    try:
        screen = _Screen(ours, process)
        begun = partial(_answered, step=0)
        screen.wait_for(begun)
        made = 0
        while made < moves or not screen.is_over:
            if screen.is_over:
                screen.strike(b" ", begun)
                continue
            screen.strike(KEYS[choices[screen.field]], partial(_answered, step=screen.step + 1))
            made += 1
        os.write(ours, b"q")
        screen.wait_for_the_end()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def _answered(frame: bytes, step: int) -> bool:
    return f"step {step} ".encode() in frame and (_WAITING in frame or _OVER in frame)


class _Screen:
    """The last whole picture that the session drew on its terminal."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal, self._process = terminal, process
        self._raw = self.frame = b""

    @property
    def is_over(self) -> bool:
        return _OVER in self.frame

    @property
    def step(self) -> int:
        found = re.search(rb"step (\d+) ", self.frame)
        return int(found[1]) if found else 0

    @property
    def field(self) -> int:
        """Where the player stands: the letter on red."""
        lines = [line for line in self.frame.split(b"\r\n") if re.match(rb"(\x1b\[\d*m)*[SFHG]", line)]
        for row, line in enumerate(lines):
            if found := _FIELD.search(line):
                return 4 * row + len(re.sub(rb"\x1b\[\d*m", b"", line[: found.start()]))
        raise BenchmarkError(f"nobody stands on the map: {self.frame[-300:]!r}")

    def strike(self, key: bytes, answered: Callable[[bytes], bool]) -> None:
        os.write(self._terminal, key)
        self.wait_for(answered)

    def wait_for(self, looks_right: Callable[[bytes], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not looks_right(self.frame):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise BenchmarkError(f"the session stands still: {self.frame[-300:]!r}")
            self._read(1.0)

    def wait_for_the_end(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise BenchmarkError("the session does not end")
            self._read(0.1)

    def _read(self, patience: float) -> None:
        if not select.select([self._terminal], [], [], patience)[0]:
            return
        try:
            self._raw += os.read(self._terminal, 65536)
        except OSError:  # Linux answers so when the other side is closed
            return
        *_, whole, self._raw = (self.frame, *self._raw.split(b"\x1b[J"))
        self.frame = whole


if __name__ == "__main__":
    for line in run(quick=True).lines:
        print(f"{line.what}: {line.measured}, {line.verdict}")
