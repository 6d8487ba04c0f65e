"""The turns of an offline run: when it is held, judged, logged, saved, and when it goes on in the environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corl_worker.acting import Scales, acting
from corl_worker.replay import Replay
from corl_worker.task import OfflineTask
from mosaic_protocol.headline import RETURN_TAG
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.offline import Data, ObservationScale, RewardScale
from mosaic_worker.offline.rows_file import fits_into_memory, table_in_file
from mosaic_worker.policies.evaluation import Episode, Player
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

LOG_EVERY = 200
EVALUATION_SEED = 7
LARGEST_LOSS = 1e12
"""Of a loss on scaled rewards; what is beyond it only grows."""


class OfflineRun:
    """Counts gradient updates, which are the steps of a run. A script's loop is::

    run.restore(data)
    while run.goes_on():
        run.play()
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()
    """

    PARTS = ("updates", "evaluated_at")

    def __init__(
        self,
        task: OfflineTask,
        session: TrainingSession,
        state: TrainingState,
        args: Any,
        replay: Replay,
        actor: nn.Module,
        verify: Callable[[], None],
        noise: float = 0.0,
    ) -> None:
        """`noise`: what a deterministic actor explores with when the run goes on in the environment."""
        self.task, self.session, self.args, self.replay = task, session, args, replay
        self.actor, self.noise, self.verify_networks = actor, noise, verify
        self.updates, self.evaluated_at = 0, -1
        self._saved_at: int | None = None
        self.offline_steps: int = args.total_timesteps
        self.steps: int = self.offline_steps + getattr(args, "online_steps", 0)
        self.scales = Scales(task.observation_size)
        session.note_dataset(task.described())
        state.module("scales", self.scales)
        state.attributes("run", self, *self.PARTS)
        state.attributes("replay", replay, *replay.PARTS)
        self.player: OnlinePlayer | None = None
        if task.online is not None:
            self.player = OnlinePlayer(task, session, replay, self.scales, self.policy, args)
            state.attributes("player", self.player, *self.player.PARTS)
            state.envs("envs", task.online, self.player.restart)
        self.state = RunState(session, state, task, args, self, verify=self.verify)

    @property
    def global_step(self) -> int:
        return self.updates

    def policy(self) -> Policy:
        """The policy as it is now."""
        return acting(self.actor, self.state.spaces, self.scales, self.noise)

    def play(self) -> None:
        """One step in the environment, once the run is past its offline part."""
        if self.is_online and self.player is not None:
            self.player.step(self.updates)

    @property
    def is_online(self) -> bool:
        """Whether the run is past its offline part."""
        return self.updates >= self.offline_steps

    @property
    def online_share(self) -> float:
        """How much of its online part is done, from 0 to 1."""
        return max(0, self.updates - self.offline_steps) / max(1, self.steps - self.offline_steps)

    def restore(self, data: Data) -> None:
        """Go on from the checkpoint that the arguments name, if any; then read the data in, on the run's scales. A run
        that begins with another one's networks keeps their scales, too: they were learned behind these."""
        args = self.args
        self.scales.take(observation_scale(args, data), reward_scale(args, data))
        self.state.restore()
        self.replay.load(data, self.scales, getattr(args, "discount", 0.99), self._table)
        self.task.introduce()
        if self.task.online is not None:
            self.session.record(self.task.online)
        self.session.begin(self.steps)

    def _table(self, rows: int, width: int) -> Tensor:
        """Room for what is learned from; what memory is too small for is a file of the run's folder while it runs."""
        size = 4 * rows * width
        if fits_into_memory(size):
            return torch.empty(rows, width)
        table = torch.from_numpy(table_in_file(rows, width, self.session.run_dir))
        print(
            f"The rows to learn from take {size / 1e9:,.1f} GB, more than half of the memory that is free: they are "
            "drawn from a file.",
            flush=True,
        )
        return table

    def goes_on(self) -> bool:
        """The top of a turn: attend to the session and judge the policy when it is due. False at the end of the run."""
        self.session.safe_point(self.updates)
        if self._is_evaluation_due() and not self.session.stop_requested:
            self._evaluate()
        return self.updates < self.steps and not self.session.stop_requested

    def count(self, figures: Callable[[], Mapping[str, float]]) -> None:
        """The end of a turn: one update was made. `figures` is asked for what to log when that is due."""
        self.updates += 1
        if self.updates % LOG_EVERY == 0:
            self._log(figures())
        self.state.save_if_due()

    def end(self) -> None:
        self.state.save_last()

    def verify(self) -> None:
        """Raise FloatingPointError instead of letting a checkpoint of lost networks be written."""
        try:
            self.verify_networks()
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} {self._last_good()}") from None
        self._saved_at = self.updates

    # ---- logging ---------------------------------------------------------------------------------------------------

    def _log(self, figures: Mapping[str, float]) -> None:
        for tag, value in figures.items():
            if not math.isfinite(value) or abs(value) > LARGEST_LOSS:
                raise FloatingPointError(
                    f"{tag} is {value:g} after {self.updates:,} updates: the run diverges; a lower learning rate may "
                    f"help, or --normalize-reward. {self._last_good()}"
                )
        told = {**figures, "charts/SPS": self.state.steps_per_second, "charts/phase": self._phase}
        self.session.scalars(self.updates, told)

    @property
    def _phase(self) -> float:
        """0 while it learns from the data alone, 1 while it goes on in the environment."""
        return float(self.updates > self.offline_steps)

    def _last_good(self) -> str:
        if self._saved_at is None:
            return "No checkpoint was written before."
        return f"The checkpoint of update {self._saved_at:,} is kept."

    # ---- judging ---------------------------------------------------------------------------------------------------

    def _is_evaluation_due(self) -> bool:
        if self.task.env is None or not self.args.eval_freq or self.updates in (0, self.evaluated_at):
            return False
        return self.updates % self.args.eval_freq == 0 or self.updates in (self.offline_steps, self.steps)

    def _evaluate(self) -> None:
        """Play episodes that are the same for every evaluation, deterministically: no other chance is drawn, so a run
        that was judged is the same as one that was not."""
        assert self.task.env is not None
        player = Player(self.policy(), self.task.env, EVALUATION_SEED, deterministic=True)
        returns: list[float] = []
        for event in player.play(range(self.args.n_episodes), lambda: self.session.stop_requested):
            if isinstance(event, Episode):
                returns.append(event.total)
            self.session.safe_point(self.updates)
        if len(returns) < self.args.n_episodes:
            return  # stopped; a run that goes on from here is judged then
        self.evaluated_at = self.updates
        mean = float(np.mean(returns))
        told = {RETURN_TAG: mean, "charts/phase": self._phase}
        if (score := self.task.score(mean)) is not None:
            told["charts/normalized_score"] = score
        self.session.scalars(self.updates, told, returns)


class OnlinePlayer:
    """Plays one environment with the policy as it is, exploring, and keeps what happens."""

    PARTS = ("random", "observation", "total", "length")

    def __init__(
        self,
        task: OfflineTask,
        session: TrainingSession,
        replay: Replay,
        scales: Scales,
        policy: Callable[[], Policy],
        args: Any,
    ) -> None:
        self.task, self.session, self.replay, self.scales = task, session, replay, scales
        self.env, self.policy = task.online.envs[0], policy
        self.random = action_stream(args.seed)
        self.observation = np.asarray(self.env.reset(seed=args.seed)[0])
        self.total, self.length = 0.0, 0

    def restart(self) -> None:
        """Begin a new episode where a checkpoint could not hold the running one."""
        self.observation = np.asarray(self.env.reset()[0])
        self.total, self.length = 0.0, 0

    def step(self, step: int) -> None:
        """One step of the environment, remembered with the observation that it truly led to."""
        policy: Any = self.policy()
        (action,) = policy.act(self.observation[None], deterministic=False, random=self.random)
        observation, reward, terminated, truncated, _ = self.env.step(action)
        before, after = (policy.rows(np.asarray(one)[None]) for one in (self.observation, observation))
        kept = action - self.task.action_space.start if self.task.is_discrete else action
        scaled = self.scales.rewards(np.array([reward]))
        self.replay.add(before, kept, after, scaled, bool(terminated), continues=self.length > 0)
        self.total += float(reward)
        self.length += 1
        self.observation = np.asarray(observation)
        if terminated or truncated:
            self.replay.end_episode(self.length)
            self.session.scalars(step, {"charts/online_return": self.total, "charts/online_length": self.length})
            self.observation = np.asarray(self.env.reset()[0])
            self.total, self.length = 0.0, 0


def observation_scale(args: Any, data: Data) -> ObservationScale:
    if not args.normalize:
        return ObservationScale.none(data.width)
    return ObservationScale.of(data)


def reward_scale(args: Any, data: Data) -> RewardScale:
    """With ``--normalize-reward`` the best and the worst episode lie as many points apart as the longest has steps, so
    that a step's reward is of the order of 1; then ``--reward-scale`` and ``--reward-bias``. Those who imitate have
    neither."""
    if not hasattr(args, "normalize_reward"):
        return RewardScale(1.0)
    if not args.normalize_reward:
        return RewardScale(args.reward_scale, args.reward_bias)
    horizon = int(data.lengths().max())
    return RewardScale(RewardScale.by_return_range(data, horizon).factor * args.reward_scale, args.reward_bias)
