"""Playing what is missing, and verifying what was played. Blocking; for a thread or a command.

Each entry is played by a program of the worker that it belongs to, and its steps are recorded in a part of their own.
Then the program that replays them simulates every episode from its seed. Several entries are at it side by side.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services import recorded_steps
from gym_gui.services.arena.errors import ArenaError
from gym_gui.services.arena.model import Arena, Entry, Kind
from gym_gui.services.arena.played import (
    Played,
    keep_verdict,
    new_part,
    read_played,
    read_recording,
    read_verdicts,
    recordings_of,
)
from gym_gui.services.arena.seeds import shown_seeds
from gym_gui.services.arena.store import ArenaStore
from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import tool
from gym_gui.services.play_sessions import play_worker_of
from gym_gui.services.worker_tools import ToolError, ToolHandle, WorkerTool
from mosaic_protocol.steps.recordings import Recording
from mosaic_protocol.whole_files import drafted_folder, settle
from mosaic_protocol.worker_manifest import discover

if TYPE_CHECKING:
    from gym_gui.services.recorded_steps import StepSource
    from mosaic_protocol.paths import MosaicPaths

BASELINES = "mosaic_worker.policies.baselines"
_MOST_JOBS = 4
_MOST_WORDS = 2000
"""Seeds for one program: more would not fit on its command line in every system."""

SourceOf = Callable[[str], "StepSource"]
"""The recorded steps of the run with this id. Raises a sentence where it is gone."""


@dataclass(frozen=True)
class Progress:
    """How far an entry is: of ``total`` seeds so many are ``played``, and so many ``verified``."""

    key: str
    played: int
    verified: int
    total: int
    problem: str = ""


Observer = Callable[[Progress], None]


def described(paths: MosaicPaths, env_id: str, env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What an environment is: its rules, its spaces, and whether it has a table. Raises ToolError."""
    words = ["--describe", "--env-id", env_id, "--env-kwargs", json.dumps(env_kwargs), "--parent", str(os.getpid())]
    with WorkerTool(play_worker_of(discover().workers.values()), paths, BASELINES, words) as running:
        return list(running.messages())[-1]


class Contest:
    """One go at an arena. :meth:`run` plays; :meth:`stop` may be called from any thread."""

    def __init__(
        self, store: ArenaStore, name: str, source_of: SourceOf, observer: Observer = lambda progress: None
    ) -> None:
        self._store, self._name, self._source_of = store, name, source_of
        self._observer = observer
        self._lock = threading.Lock()
        self._handles: list[ToolHandle] = []
        self.stopped = False

    def stop(self) -> None:
        with self._lock:
            self.stopped = True
            handles = list(self._handles)
        for handle in handles:
            handle.stop()

    def run(self, jobs: int | None = None) -> None:
        """To the end, or until it was stopped. An entry that cannot play has its problem noted, and keeps nobody else
        from playing. Raises ArenaError where the arena is gone or somebody else plays in it."""
        with self._store.playing(self._name) as lock:
            arena = self._store.load(self._name)
            usual = min(len(os.sched_getaffinity(0)), _MOST_JOBS)
            with ThreadPoolExecutor(max_workers=jobs or usual, thread_name_prefix="arena") as pool:
                for done in [pool.submit(self._attend, arena, entry, lock) for entry in arena.entries]:
                    done.result()

    def _attend(self, arena: Arena, entry: Entry, lock: int) -> None:
        if self.stopped:
            return
        folder = self._store.folder(arena, entry)
        at = _Standing(arena, entry, folder, self._observer)
        try:
            at.read()
            at.tell()
            if missing := at.played.missing(arena.seeds):
                self._play(at, missing, lock)
                at.read()
            self._verify(at, lock)
            problem = ""
        except (ArenaError, CheckpointsError, ToolError) as error:
            if self.stopped:
                return
            problem = str(error)
        except OSError as error:
            problem = f"what it plays cannot be kept: {error.strerror or error}"
        with self._lock:
            self._store.set_problem(self._name, entry.key, problem)
        at.tell(problem)

    # ---- playing -------------------------------------------------------------------------------------------------

    def _play(self, at: _Standing, missing: Sequence[int], lock: int) -> None:
        if at.entry.kind is Kind.RECORDING:
            self._copy(at)
            return
        for first in range(0, len(missing), _MOST_WORDS):
            self._play_some(at, missing[first : first + _MOST_WORDS], lock)

    def _play_some(self, at: _Standing, seeds: Sequence[int], lock: int) -> None:
        part = new_part(at.folder)
        part.parent.mkdir(parents=True, exist_ok=True)
        words = ["--seeds", ",".join(map(str, seeds)), "--record", str(part), "--parent", str(os.getpid())]
        if at.entry.kind is Kind.BASELINE:
            player = ["--env-id", at.arena.env_id, "--player", at.entry.source["player"]]
            player += ["--env-kwargs", json.dumps(at.arena.env_kwargs)]
            manifest = play_worker_of(discover().workers.values())
            self._follow(at, WorkerTool(manifest, self._store.paths, BASELINES, [*player, *words], holds=(lock,)))
            return
        found = TrainingRegistry(self._store.paths).find(at.entry.source["path"])
        words += ["--mode", "deterministic", "--no-clips", "--jobs", "1", "--rules", json.dumps(at.arena.rules)]
        words += ["--env-id", at.arena.env_id] if found.env_id != at.arena.env_id else []
        self._follow(at, tool("evaluate", found, self._store.paths, words, holds=(lock,)))

    def _follow(self, at: _Standing, running: WorkerTool) -> None:
        handle = ToolHandle()
        with running, closing(_Held(self, handle)):
            handle.take(running)
            for message in running.messages():
                if message.get("at") == "episode":
                    at.count += 1
                    at.tell()

    def _copy(self, at: _Standing) -> None:
        """What a run recorded is copied, so that it stays when the run is removed."""
        source = self._source_of(at.entry.source["run_id"])
        rules = at.played.rules or rules_of_source(source, self._store.paths)
        require_same_game(at.arena, source.name, rules)
        part = new_part(at.folder)
        with drafted_folder(part) as draft:
            Recording.new(draft, {**source.about, "rules": rules}).add(source.chunks(None))
            copied = read_recording(draft, at.arena.seeds)
            if not set(copied.results) - set(at.played.results):
                require_some(at.arena, source.name, at.played.results or copied.results, copied.others)
                return
            settle(draft, part)

    # ---- verifying -----------------------------------------------------------------------------------------------

    def _verify(self, at: _Standing, lock: int) -> None:
        for place in recordings_of(at.folder):
            if self.stopped:
                return
            known = read_verdicts(place)
            counting = [one for one in at.played.results.values() if one.recording == place]
            if all(one.episode in known for one in counting):
                continue
            words = ["--every", "--but", ",".join(map(str, known)), "--parent", str(os.getpid())]
            source = recorded_steps.of_folder(place)
            handle = ToolHandle()
            running = recorded_steps.replay(source, self._store.paths, place, words, holds=(lock,))
            with running, closing(_Held(self, handle)):
                handle.take(running)
                for message in running.messages():
                    if message.get("at") == "checked":
                        keep_verdict(place, message)
                        at.verified += not message["sentence"] and message["verified"] == message["steps"]
                        at.tell()


class _Held:
    """A tool's handle, for as long as the contest may have to stop it."""

    def __init__(self, contest: Contest, handle: ToolHandle) -> None:
        self._contest, self._handle = contest, handle
        with contest._lock:
            contest._handles.append(handle)
            handle.stopped = contest.stopped

    def close(self) -> None:
        with self._contest._lock:
            self._contest._handles.remove(self._handle)


class _Standing:
    """How far one entry is. Belongs to the thread that attends to it."""

    def __init__(self, arena: Arena, entry: Entry, folder: Path, observer: Observer) -> None:
        self.arena, self.entry, self.folder, self._observer = arena, entry, folder, observer
        self.played = Played({})
        self.count = self.verified = 0

    def read(self) -> None:
        self.played = read_played(self.folder, self.arena.seeds)
        self.count, self.verified = len(self.played.results), self.played.verified

    def tell(self, problem: str = "") -> None:
        self._observer(Progress(self.entry.key, self.count, self.verified, len(self.arena.seeds), problem))


# ---- what a recording has to be ----------------------------------------------------------------------------------


def rules_of_source(source: StepSource, paths: MosaicPaths) -> dict[str, Any]:
    """The game that a run played, as its worker makes it again. Raises ArenaError."""
    told, why = recorded_steps.described(source, paths)
    if not told.get("env_spec"):
        reason = why or "its environment has no specification"
        raise ArenaError(f"nobody knows which game {source.name} is of: {reason}")
    spec = json.loads(told["env_spec"])
    kwargs = {name: value for name, value in (spec.get("kwargs") or {}).items() if name != "render_mode"}
    return {"env_id": spec.get("id"), "kwargs": kwargs, "max_episode_steps": spec.get("max_episode_steps")}


def require_same_game(arena: Arena, name: str, rules: Mapping[str, Any]) -> None:
    """Raise ArenaError where a recording is of another game."""
    if rules.get("env_id") != arena.rules.get("env_id"):
        raise ArenaError(f"{name} played {rules.get('env_id')}, this arena is {arena.env_id}")
    here, there = dict(rules.get("kwargs") or {}), dict(arena.rules.get("kwargs") or {})
    names = sorted(one for one in here | there if here.get(one) != there.get(one))
    if names:
        told = ", ".join(f"{one} {here.get(one, 'default')} instead of {there.get(one, 'default')}" for one in names)
        raise ArenaError(f"{name} played {arena.env_id} with {told}: another game")


def require_some(arena: Arena, name: str, results: Mapping[int, Any], others: Sequence[int]) -> None:
    """Raise ArenaError where none of the seeds was played."""
    if results:
        return
    advice = f"`mosaic play --env-id {arena.env_id} --seed {arena.seeds[0]}` begins with the first of them"
    if not others:
        raise ArenaError(f"{name} recorded no whole episode with a seed: {advice}")
    played, wanted = shown_seeds(set(others)), shown_seeds(arena.seeds)
    raise ArenaError(f"{name} played the seeds {played}, none of this arena's ({wanted}): {advice}")
