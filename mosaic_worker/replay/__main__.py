"""``python -m mosaic_worker.replay --recording DIR --episode N``: simulate an episode again and compare every step.

Works in the environment of the worker that recorded. Answers with JSON lines: ``{"at": "ready", …}``, ``{"at":
"progress", …}`` now and then, and last ``{"at": "result", …}``. With ``--describe`` it only tells the spaces of the
recording's environment. With ``--every`` it checks all episodes that ended, ``{"at": "checked", …}`` for each. With
``--serve`` it stays open for a screen, as :mod:`mosaic_protocol.replay_messages` says,
and with ``--clip FILE`` as well it shows a film instead of a recording. Ends with the process that started it.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mosaic_protocol.dialogue import exchange_at, in_full
from mosaic_protocol.events import RecordError
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.recordings import Recording, RecordingError
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.answers import refuse, take_over_stdout, tell, worker_package
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    from mosaic_protocol.steps.recorded_episodes import RecordedEpisode
    from mosaic_worker.replay.simulation import Replay

_PROGRESS_SECONDS = 0.5
_MOST_NUMBERS = 10_000
_STDIN = 0
_TERMINATED = 128 + signal.SIGTERM


def main(worker: Path | None = None) -> int:
    """Replay for a worker, given by the folder of its package; see :func:`worker_package`."""
    worker = worker_package(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it here as well; the one that started this ends it
    signal.signal(signal.SIGTERM, _give_up)
    options = _parser(worker).parse_args()
    answers = take_over_stdout()
    if options.parent:
        die_with_parent(options.parent)
    from mosaic_worker.recording.video import choose_display_drivers

    choose_display_drivers()
    try:
        if options.clip is not None:
            return _serve_clip(options.clip, answers)
        recording = Recording.at(options.recording)
        if options.serve:
            return _serve(recording, worker, options, answers)
        if options.describe:
            return _describe(recording, worker, answers)
        if options.every:
            return _check_every(recording, worker, options, answers)
        return _Session(recording, worker, options, answers).run()
    except (UsageError, RecordingError, ChunkError, RecordError) as error:
        return refuse(worker, error)
    except OSError as error:
        return 1 if isinstance(error, BrokenPipeError) else refuse(worker, f"{error.filename}: {error.strerror}")


def _give_up(*_: object) -> None:
    """End, and clear away what was begun. The kernel may send SIGTERM for each thread of a parent that dies; the
    second one must not end the clearing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(_TERMINATED)


def _parser(worker: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{worker.name}: replay", description=__doc__, allow_abbrev=False)
    parser.add_argument("--recording", type=Path, default=Path(), help="folder of the recorded steps")
    parser.add_argument("--episode", type=int, default=0)
    parser.add_argument("--step", type=int, help="go no further than this step, and show it")
    parser.add_argument("--export", type=Path, help="film it: a file that ends in .mp4 or .gif")
    parser.add_argument("--every", action="store_true", help="check every episode that ended, one after the other")
    parser.add_argument("--but", default="", help="with --every: numbers of episodes to leave out: 3,4,7")
    parser.add_argument("--describe", action="store_true", help="tell the spaces of the environment and nothing else")
    parser.add_argument("--serve", action="store_true", help="answer what is asked on stdin, until it ends")
    parser.add_argument("--films", type=Path, help="folder of films of the episodes, where it is not the recording's")
    parser.add_argument("--clip", type=Path, help="serve the pictures of a film")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


def _serve(recording: Recording, worker: Path, options: argparse.Namespace, answers: TextIO) -> int:
    from mosaic_worker.replay.served_episode import ServedEpisode
    from mosaic_worker.replay.serving import Conversation

    with closing(Conversation(_STDIN, answers)) as talk:
        episode = recorded_episode(recording, options.episode)
        ServedEpisode(recording, worker, episode, talk, options.films).run()
    return 0


def _serve_clip(clip: Path, answers: TextIO) -> int:
    from mosaic_worker.replay.served_clip import ServedClip
    from mosaic_worker.replay.serving import Conversation

    with closing(Conversation(_STDIN, answers)) as talk:
        ServedClip(clip, talk).run()
    return 0


def recorded_episode(recording: Recording, wanted: int) -> RecordedEpisode:
    """Raises UsageError where there is none of the number."""
    from mosaic_protocol.steps.recorded_episodes import read_episodes

    found = next(iter(read_episodes(recording.chunks(wanted), wanted)), None)
    if found is None:
        raise UsageError(f"there is no recorded episode {wanted}")
    return found


def _describe(recording: Recording, worker: Path, answers: TextIO) -> int:
    from mosaic_worker.replay.environments import describe, make_env

    with closing(make_env(recording.about, worker)) as env:
        tell(answers, at="result", **describe(env))
    return 0


def _check_every(recording: Recording, worker: Path, options: argparse.Namespace, answers: TextIO) -> int:
    """A verdict on each whole episode; one that cannot be simulated has a sentence instead."""
    from mosaic_protocol.steps.recorded_episodes import read_episodes

    left_out = {int(word) for word in options.but.split(",") if word}
    count = 0
    for episode in read_episodes(recording.chunks()):
        if episode.number in left_out or not episode.is_whole:
            continue
        told = {"episode": episode.number, "seed": episode.seed, "steps": len(episode)}
        tell(answers, at="checked", **told, **_verdict_on(episode, recording, worker))
        count += 1
    tell(answers, at="result", episodes=count)
    return 0


def _verdict_on(episode: RecordedEpisode, recording: Recording, worker: Path) -> dict[str, Any]:
    from mosaic_worker.replay.environments import make_env
    from mosaic_worker.replay.simulation import Replay
    from mosaic_worker.replay.verdict import described, whose_fault

    try:
        with closing(Replay(episode, lambda: make_env(recording.about, worker))) as replay:
            for _ in replay.run():
                pass
            told: dict[str, Any] = {"verified": replay.verified, "sentence": "", "repeats_itself": None}
            if (found := replay.difference) is not None:
                fault = whose_fault(replay, found.place, recording, worker)
                told |= {"sentence": described(found)["sentence"], "repeats_itself": fault["repeats_itself"]}
            return told
    except UsageError as error:
        return {"verified": 0, "sentence": str(error), "repeats_itself": None}


class _Session:
    """One replay from the first step to the verdict."""

    def __init__(self, recording: Recording, worker: Path, options: argparse.Namespace, answers: TextIO) -> None:
        self.recording, self.worker, self.options, self.answers = recording, worker, options, answers
        self.told_at = time.monotonic()

    def run(self) -> int:
        from mosaic_worker.replay import pictures
        from mosaic_worker.replay.environments import make_env
        from mosaic_worker.replay.simulation import Replay, require_replayable

        film: Path | None = self.options.export
        if film is not None:
            pictures.require_format(film)
        episode = recorded_episode(self.recording, self.options.episode)
        require_replayable(episode)
        self._check_step(episode)
        about = {"env_id": self.recording.about.get("env_id"), "episode": episode.number, "seed": episode.seed}
        tell(self.answers, at="ready", **about, steps=len(episode))

        def make() -> Any:
            return make_env(self.recording.about, self.worker, pictures=film is not None)

        with closing(Replay(episode, make)) as replay:
            frames = pictures.write(film, replay.env, self._advance(replay)) if film is not None else 0
            while self._advance(replay)():
                pass
            result = self._verdict(replay) | self._stand(replay)
        if film is not None:
            result |= {"export": str(film), "frames": frames}
        tell(self.answers, at="result", **about, **result)
        return 0

    def _check_step(self, episode: RecordedEpisode) -> None:
        step = self.options.step
        if step is not None and not 0 <= step < len(episode):
            raise UsageError(f"episode {episode.number} has the steps 0 to {len(episode) - 1}, none {step}")

    def _advance(self, replay: Replay) -> Callable[[], bool]:
        last = len(replay.episode) if self.options.step is None else self.options.step + 1

        def advance() -> bool:
            if replay.place >= last or replay.difference is not None or not replay.advance():
                return False
            if time.monotonic() - self.told_at > _PROGRESS_SECONDS:
                self.told_at = time.monotonic()
                tell(self.answers, at="progress", steps=replay.place, of=last)
            return True

        return advance

    def _verdict(self, replay: Replay) -> dict[str, Any]:
        from mosaic_worker.replay.verdict import described, whose_fault

        episode, difference = replay.episode, replay.difference
        steps = len(episode) if self.options.step is None else self.options.step + 1
        if difference is not None and difference.place >= steps:
            difference = None  # beyond what was asked for
        told: dict[str, Any] = {
            "steps": steps,
            "checked": replay.checked,
            "verified": replay.verified,
            "length": len(episode),
            "outcome": episode.outcome,
            "return": _finite(float(episode.rewards.sum())),
            "actors": {actor: episode.actors.count(actor) for actor in dict.fromkeys(episode.actors)},
            **asdict(replay.compared),
            "difference": None,
        }
        if difference is None:
            return told
        told["difference"] = described(difference)
        told |= whose_fault(replay, difference.place, self.recording, self.worker)
        return told

    def _stand(self, replay: Replay) -> dict[str, Any]:
        """What was asked for with ``--step``."""
        step = self.options.step
        if step is None:
            return {}
        episode = replay.episode
        values = episode.values
        shown = {
            "place": step,
            "number": int(episode.numbers[step]),
            "observation": _plain(_whole(episode.observation(step))),
            "action": _plain(episode.action(step)),
            "reward": _finite(float(episode.rewards[step])),
            "terminated": bool(episode.terminated[step]),
            "truncated": bool(episode.truncated[step]),
            "actor": episode.actors[step],
            "value": None if values is None else _finite(float(values[step])),
            "info": _plain(episode.extras.get(step, {})),
        }
        asked = exchange_at(step, episode.extras)
        return {"step": shown} if asked is None else {"step": shown, "dialogue": in_full(asked)}


def _whole(leaves: dict[Any, Any]) -> Any:
    from mosaic_protocol.steps.columns import join

    return join(list(leaves.items())) if leaves else None


def _plain(value: Any) -> Any:
    """As JSON: numbers that are not finite become null, and a picture its form."""
    if hasattr(value, "tolist"):
        if getattr(value, "size", 1) > _MOST_NUMBERS:
            return f"{value.dtype} {list(value.shape)}"
        value = value.tolist()
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value if isinstance(value, bool | int | str | None) else str(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main())
