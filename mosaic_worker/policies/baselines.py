"""``python -m mosaic_worker.policies.baselines``: an environment as a worker plays it, told about, or played by
chance or by the optimal policy.

Answers with JSON lines: with ``--describe`` one ``{"at": "result", …}`` with its rules and spaces; else as
:mod:`mosaic_worker.policies.evaluate` does. What is played is recorded as a run of the worker would be.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mosaic_protocol.steps.recordings import RUN
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.answers import refuse, take_over_stdout, tell, worker_package
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    import gymnasium as gym

    from mosaic_worker.policies.policy import Policy

PLAYERS = ("random", "optimal")


def main(worker: Path | None = None) -> int:
    """Play for a worker, given by the folder of its package; see :func:`worker_package`."""
    worker = worker_package(worker)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = _parser().parse_args()
    answers = take_over_stdout()
    if options.parent:
        die_with_parent(options.parent)
    from mosaic_worker.recording.video import choose_display_drivers

    choose_display_drivers(windows=False)
    try:
        return _Baseline(options, worker, answers).run()
    except UsageError as error:
        return refuse(worker, error)
    except BrokenPipeError:
        return 1


def _parser() -> argparse.ArgumentParser:
    from mosaic_worker.policies.evaluate import whole_numbers

    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--env-id", required=True)
    parser.add_argument("--env-kwargs", type=json.loads, default={}, help="JSON: what it is made with")
    parser.add_argument("--describe", action="store_true", help="tell about the environment and play nothing")
    parser.add_argument("--player", choices=PLAYERS, default="random")
    parser.add_argument("--seeds", type=whole_numbers, default=[], help="seeds of the environment, one an episode")
    parser.add_argument("--record", type=Path, help="directory for every step")
    parser.add_argument("--parent", type=int, help="end with this process")
    return parser


class _Baseline:
    def __init__(self, options: argparse.Namespace, worker: Path, answers: TextIO) -> None:
        self.options, self.worker, self.answers = options, worker, answers
        self.stopped = False

    def run(self) -> int:
        from mosaic_worker.replay.environments import make_env

        signal.signal(signal.SIGTERM, self._on_terminate)
        with closing(make_env(self._about(), self.worker)) as env:
            if self.options.describe:
                self._describe(env)
            else:
                self._play(env)
        return 0

    def _about(self) -> dict[str, Any]:
        from mosaic_protocol.worker_manifest import load_manifest
        from mosaic_worker.replay.environments import versions

        env_id, kwargs = self.options.env_id, self.options.env_kwargs
        manifest = load_manifest(self.worker)
        settings = {"env_id": env_id, "params": {"env_kwargs": kwargs}, "extras": {}}
        about = {"kind": RUN, "worker": manifest.type, "algo": self.options.player, "env_id": env_id}
        return {**about, "settings": settings, "versions": versions()}

    def _describe(self, env: gym.Env[Any, Any]) -> None:
        from mosaic_worker.policies.rules import rules_of
        from mosaic_worker.policies.tables import has_table
        from mosaic_worker.state.checkpoints import describe_space

        spaces = {"observation": describe_space(env.observation_space), "action": describe_space(env.action_space)}
        tell(self.answers, at="result", rules=rules_of(env), spaces=spaces, has_table=has_table(env))

    def _play(self, env: gym.Env[Any, Any]) -> None:
        from mosaic_worker.policies.evaluation import Episode, Player
        from mosaic_worker.policies.evaluation_team import recorded, told
        from mosaic_worker.policies.rules import rules_of

        options = self.options
        policy = self._policy(env)
        tell(self.answers, at="ready", env_id=options.env_id, episodes=len(options.seeds))
        about = {**self._about(), "rules": rules_of(env)}
        count = 0
        with recorded(options.record, about, options.player, self._is_stopped) as lane:
            player = Player(policy, env, 0, deterministic=True, lane=lane, seeds=options.seeds)
            for event in told(player, range(len(options.seeds)), self._is_stopped):
                if isinstance(event, Episode):
                    count += 1
                    facts = {"number": event.number, "return": event.total, "length": event.length}
                    tell(self.answers, at="episode", **facts)
        tell(self.answers, at="result", episodes=count, complete=not self.stopped)

    def _policy(self, env: gym.Env[Any, Any]) -> Policy:
        from mosaic_worker.policies.evaluation import RandomPolicy
        from mosaic_worker.policies.tables import OptimalPolicy

        return OptimalPolicy(env) if self.options.player == "optimal" else RandomPolicy(env.action_space)

    def _is_stopped(self) -> bool:
        return self.stopped

    def _on_terminate(self, *_: object) -> None:
        self.stopped = True


if __name__ == "__main__":
    sys.exit(main())
