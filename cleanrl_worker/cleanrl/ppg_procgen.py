"""Phasic policy gradient (Cobbe et al., 2020) for Procgen's games.

    python cleanrl_worker/cleanrl/ppg_procgen.py --env-id starpilot --total-timesteps 1000000

Flag names, defaults and TensorBoard tags are CleanRL's. Training goes in phases. In the policy phase the agent learns
from each rollout once, much as with PPO, but what the critic learns does not reach the shared network. In the
auxiliary phase a second value head teaches the shared network from all rollouts of the phase, while a penalty holds
the policy where it was.

The games are EnvPool's; see `cleanrl_worker.procgen_games`. A level that met its time limit is not treated as
terminated: its last observation is still worth its value.

A minibatch of pictures takes seconds on a CPU, so its gradient is added up in small chunks, between which the run can
pause or stop. A stop discards the unfinished minibatch, which a resumed run begins again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.procgen_games import ProcgenEnv, ProcgenGames
from mosaic_worker.learning.adam import MOMENTS, FlatAdam, require_finite
from mosaic_worker.learning.advantages import explained_variance, kl_estimate
from mosaic_worker.learning.argument_checks import check_cuda, check_minibatches, check_ranges
from mosaic_worker.learning.impala import impala_blocks, scaled
from mosaic_worker.learning.phases import Games, Phase, PhaseCollector, Position, evaluate_rollout, make_phase, take_up
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.telling import NowAndThen
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint, read_manifest
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

CHUNK = 64  # rows of one forward and backward pass: about a tenth of a second on a CPU


@dataclass
class Args:
    exp_name: str = "ppg_procgen"
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU, which for networks of this size is many times faster."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "starpilot"
    """A Procgen game: starpilot (its easy levels), starpilot-hard, or EnvPool's name for it, StarpilotHard-v0."""
    total_timesteps: int = 25_000_000
    """Environment steps in all, rounded up to whole rollouts."""
    learning_rate: float = 5e-4
    """Step size of Adam."""
    num_envs: int = 64
    """How many environments are stepped side by side."""
    num_steps: int = 256
    """Steps of each environment in a rollout."""
    anneal_lr: bool = False
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.999
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 8
    """Parts that a rollout is cut into for gradient steps."""
    adv_norm_fullbatch: bool = True
    """Normalise the advantages of each rollout."""
    clip_coef: float = 0.2
    """How far the new policy's probability ratio may move before its gradient is cut."""
    clip_vloss: bool = True
    """Clip the value function's change by the same coefficient."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longest gradient that is applied unscaled."""
    target_kl: float | None = None
    """End the passes over a rollout once the policy has moved this far."""

    n_iteration: int = 32
    """Rollouts in a phase; all of them are kept in memory for the auxiliary part at its end."""
    e_policy: int = 1
    """Passes over each rollout that improve the policy."""
    v_value: int = 1
    """Passes over each rollout that improve the value function."""
    e_auxiliary: int = 6
    """Passes over the phase's rollouts in the auxiliary part."""
    beta_clone: float = 1.0
    """How strongly the auxiliary part holds the policy where it was."""
    num_aux_rollouts: int = 4
    """Rollouts of single environments in each minibatch of the auxiliary part."""
    n_aux_grad_accum: int = 1
    """Minibatches of the auxiliary part whose gradients make one step."""

    torch_threads: int = 1
    """CPU threads for PyTorch; here, as many as there are idle cores pay off."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = False
    """Keep the phase's rollouts in checkpoints (gigabytes with the defaults); without them a resumed run's next
    auxiliary part learns only from what came after."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class Agent(nn.Module):
    """IMPALA's network with three heads: policy, value, and the value that only the auxiliary part uses."""

    def __init__(self, observation_shape: tuple[int, ...], action_count: int) -> None:
        super().__init__()
        blocks, outputs = impala_blocks(observation_shape, scaled)
        hidden = scaled(nn.Linear(outputs, 256), 1.4)
        self.network = nn.Sequential(*blocks, nn.Flatten(), nn.ReLU(), hidden, nn.ReLU())
        self.actor = scaled(nn.Linear(256, action_count), 0.1)
        self.critic = scaled(nn.Linear(256, 1), 0.1)
        self.aux_critic = scaled(nn.Linear(256, 1), 0.1)

    def features(self, observations: Tensor) -> Tensor:
        # Channels last: the same sums in half the time on a CPU.
        return self.network(observations.to(torch.float32, memory_format=torch.channels_last).div_(255))

    def policy_and_value(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, values); the value's gradient ends at its head, so that it cannot disturb the policy."""
        features = self.features(observations)
        return self.actor(features), self.critic(features.detach()).squeeze(1)

    def policy_and_both_values(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(logits, values, auxiliary values); the last one's gradient reaches the whole network."""
        features = self.features(observations)
        value, auxiliary = self.critic(features.detach()), self.aux_critic(features)
        return self.actor(features), value.squeeze(1), auxiliary.squeeze(1)


@dataclass
class PolicyLosses:
    """Sums over rows."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor


class Rows(NamedTuple):
    """What the policy phase needs of rows besides their observations."""

    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


def policy_losses(logits: Tensor, values: Tensor, rows: Rows, args: Args) -> PolicyLosses:
    """PPO's clipped objectives."""
    log_probs = F.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum()
    log_ratios = log_probs.gather(1, rows.actions.unsqueeze(1)).squeeze(1) - rows.log_probs
    # min(r A, clip(r, 1 - c, 1 + c) A) is min(r A, A + c |A|), which needs no second product.
    bounds = torch.add(rows.advantages, rows.advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(rows.advantages * log_ratios.exp(), bounds).sum()
    squared = (values - rows.returns).square()
    if args.clip_vloss:
        clipped = rows.values + (values - rows.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped - rows.returns).square())
    return PolicyLosses(policy, 0.5 * squared.sum(), entropy, log_ratios.detach())


@dataclass
class AuxiliaryLosses:
    """Sums over rows."""

    value: Tensor
    auxiliary_value: Tensor
    divergence: Tensor


def auxiliary_losses(
    logits: Tensor, values: Tensor, auxiliary_values: Tensor, old_logits: Tensor, returns: Tensor
) -> AuxiliaryLosses:
    """Both heads' value losses, and the divergence of the policy from what it was: KL(old, new)."""
    old, new = F.log_softmax(old_logits, dim=1), F.log_softmax(logits, dim=1)
    return AuxiliaryLosses(
        value=0.5 * (values - returns).square().sum(),
        auxiliary_value=0.5 * (auxiliary_values - returns).square().sum(),
        divergence=(old.exp() * (old - new)).sum(),
    )


def train(args: Args, games: Games, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = games.single_action_space
    shape: Any = games.single_observation_space.shape
    steps_in_rollout = args.num_envs * args.num_steps
    iterations = math.ceil(args.total_timesteps / steps_in_rollout)
    phase = make_phase(args, games, iterations)
    agent = Agent(shape, int(space.n)).to(device)
    collector = PhaseCollector(games, phase, session, args)

    def may_go_on() -> bool:
        """Hold while paused, save when that is due; whether the run is to go on."""
        session.safe_point(collector.global_step)
        if not session.stop_requested:
            run.save_if_due()
        return not session.stop_requested

    learner = Learner(agent, phase, args, device, may_go_on)
    position, adam = learner.position, learner.adam
    state = TrainingState()
    state.module("agent", agent)
    state.attributes("optimizer", adam, *MOMENTS)
    state.attributes("collector", collector, *collector.PARTS)
    state.attributes("reward_scale", collector.reward_scale, *collector.reward_scale.PARTS)
    state.attributes("position", position, *position.PARTS)
    state.attributes("phase", phase, "contents")
    if games.keeps_state:
        state.envs("envs", games)
    verify = partial(require_finite, adam.vector)
    run = RunState(session, state, games, args, collector, verify=verify, buffer=phase)
    run.restore(lambda: take_up(position, phase, collector, read_manifest(Path(str(args.resume))).args))

    print(f"{phase.size_told()}, filled as it goes.", flush=True)
    if games.camera is not None:
        session.record(games.camera)
    session.show(games.picture)
    session.begin(iterations * steps_in_rollout)
    while position.iteration < iterations or position.stage == "auxiliary":
        if args.anneal_lr:
            learned_from = position.iteration - (position.stage == "auxiliary")  # that part goes on at the last rate
            adam.learning_rate = args.learning_rate * (1 - learned_from / iterations)
        if position.stage == "rollout":
            while phase.filled < args.num_steps and may_go_on():
                collector.step(agent, device)
            if session.stop_requested:
                break
            evaluate_rollout(agent, phase, collector.observation, args, device)
            position.enter("policy")
        if position.stage == "policy":
            logged = learner.learn_policy()
            if logged is None:
                break
            position.iteration += 1
            phase.count, phase.filled = phase.count + 1, 0
            logged["charts/learning_rate"] = adam.learning_rate
            logged["charts/SPS"] = run.steps_per_second
            session.scalars(collector.global_step, logged)
            phase_over = position.iteration % args.n_iteration == 0 or position.iteration == iterations
            position.enter("auxiliary" if phase_over else "rollout")
        if position.stage == "auxiliary":
            logged = learner.learn_auxiliary()
            if logged is None:
                break
            session.scalars(collector.global_step, logged)
            phase.clear()
            position.enter("rollout")
    run.save(required=True)


class Learner:
    """Gradient steps of both parts of a phase.

    `may_go_on` is asked before each chunk of work; when it says no, the method that asked returns None with the
    position where it was, to be called again by a resumed run.
    """

    def __init__(
        self, agent: Agent, phase: Phase, args: Args, device: torch.device, may_go_on: Callable[[], bool]
    ) -> None:
        self.agent, self.phase, self.args, self.device = agent, phase, args, device
        self.may_go_on = may_go_on
        self.adam = FlatAdam(agent.parameters(), args.learning_rate)
        self.position = Position()
        self._told = NowAndThen()

    def learn_policy(self) -> dict[str, float] | None:
        """Improve policy and value on the newest rollout; returns what to log about it."""
        args, at = self.args, self.position
        rows = self.phase.rows_of_rollout()
        passes = max(args.e_policy, args.v_value)
        clipped: list[float] = []
        logged: dict[str, float] = {}
        while at.epoch < passes and len(rows):
            if not len(at.order):
                at.order = rows[torch.randperm(len(rows))]
            parts = at.order.tensor_split(min(args.num_minibatches, len(rows)))
            for part in parts[at.part :]:
                found = self._step_policy(part)
                if found is None:
                    return None
                logged, clip_fraction = found
                clipped.append(clip_fraction)
                at.part += 1
            at.next_epoch()
            if args.target_kl is not None and logged["losses/approx_kl"] > args.target_kl:
                break
        if logged:
            logged["losses/clipfrac"] = sum(clipped) / len(clipped)
            logged["losses/explained_variance"] = explained_variance(
                self.phase.flat("returns")[rows], self.phase.flat("values")[rows]
            )
        return logged

    def _step_policy(self, rows: Tensor) -> tuple[dict[str, float], float] | None:
        """One gradient step on a minibatch; returns (what to log, fraction of clipped ratios)."""
        args, at = self.args, self.position
        for_policy, for_value = float(at.epoch < args.e_policy), args.vf_coef * (at.epoch < args.v_value)
        self.adam.gradient.zero_()
        sums = torch.zeros(3)
        ratios = []
        for chunk in rows.split(CHUNK):
            if not self.may_go_on():
                return None
            columns = Rows(*(self.phase.flat(name)[chunk].to(self.device) for name in Rows._fields))
            logits, values = self.agent.policy_and_value(self.phase.flat("observations")[chunk].to(self.device))
            losses = policy_losses(logits, values, columns, args)
            total = for_policy * (losses.policy - args.ent_coef * losses.entropy) + for_value * losses.value
            (total / len(rows)).backward()
            sums += torch.stack([losses.policy, losses.value, losses.entropy]).detach().cpu()
            ratios.append(losses.log_ratios.cpu())
        self._descend(sums)
        policy, value, entropy = (sums / len(rows)).tolist()
        log_ratios = torch.cat(ratios)
        logged = {
            "losses/value_loss": value,
            "losses/policy_loss": policy,
            "losses/entropy": entropy,
            "losses/old_approx_kl": -log_ratios.mean().item(),
            "losses/approx_kl": kl_estimate(log_ratios),
        }
        return logged, ((log_ratios.exp() - 1).abs() > args.clip_coef).float().mean().item()

    def _descend(self, sums: Tensor) -> None:
        if not sums.isfinite().all():
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
        self.adam.clip(self.args.max_grad_norm)
        self.adam.descend()

    def learn_auxiliary(self) -> dict[str, float] | None:
        """Teach the shared network the returns of the phase; returns what to log about it."""
        args, at = self.args, self.position
        if not self._remember_policy():
            return None
        columns = self.phase.count * self.phase.shape[2]
        size = args.num_aux_rollouts * args.n_aux_grad_accum
        logged: dict[str, float] = {}
        while at.epoch < args.e_auxiliary and columns:
            if not len(at.order):
                at.order = torch.randperm(columns)
            parts = at.order.split(size)
            for part in parts[at.part :]:
                self._told.say(
                    f"Auxiliary part: pass {at.epoch + 1} of {args.e_auxiliary}, step {at.part} of {len(parts)}."
                )
                rows = self.phase.rows_of_columns(part)
                found = self._step_auxiliary(rows) if len(rows) else logged
                if found is None:
                    return None
                logged = found
                at.part += 1
            at.next_epoch()
        return logged

    @torch.no_grad()
    def _remember_policy(self) -> bool:
        """Keep the logits that the auxiliary part must hold the policy to; False when the run is to stop."""
        phase, at = self.phase, self.position
        size = phase.shape[1] * phase.shape[2]
        observations, logits = phase.flat("observations"), phase.flat("logits")
        while at.known < (total := phase.count * size):
            if not self.may_go_on():
                return False
            self._told.say(f"Auxiliary part: evaluating {at.known:,} of {total:,} observations.")
            rows = slice(at.known, min(at.known + 2 * CHUNK, total))
            logits[rows] = self.agent.actor(self.agent.features(observations[rows].to(self.device))).cpu()
            at.known = rows.stop
        return True

    def _step_auxiliary(self, rows: Tensor) -> dict[str, float] | None:
        """One gradient step on the auxiliary objective; returns what to log about it."""
        phase, device = self.phase, self.device
        self.adam.gradient.zero_()
        sums = torch.zeros(3)
        for chunk in rows.split(CHUNK):
            if not self.may_go_on():
                return None
            outputs = self.agent.policy_and_both_values(phase.flat("observations")[chunk].to(device))
            aims = phase.flat("logits")[chunk].to(device), phase.flat("returns")[chunk].to(device)
            losses = auxiliary_losses(*outputs, *aims)
            total = losses.value + losses.auxiliary_value + self.args.beta_clone * losses.divergence
            (total / len(rows)).backward()
            sums += torch.stack([losses.divergence, losses.auxiliary_value, losses.value]).detach().cpu()
        self._descend(sums)
        tags = ("losses/aux/kl_loss", "losses/aux/aux_value_loss", "losses/aux/real_value_loss")
        return dict(zip(tags, (sums / len(rows)).tolist(), strict=True))


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=(
            *("total_timesteps", "num_envs", "num_steps", "num_minibatches"),
            *("n_iteration", "num_aux_rollouts", "n_aux_grad_accum", "torch_threads"),
        ),
        not_negative=(
            *("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef"),
            *("e_policy", "v_value", "e_auxiliary", "beta_clone"),
        ),
        positive=("learning_rate", "clip_coef", "max_grad_norm", "target_kl"),
        fractions=("gamma", "gae_lambda"),
    )
    check_minibatches(args)
    check_cuda(args)


def make_envs(args: Args) -> Games:
    """The environments. Raises UsageError. A resumed run meets other levels than those it began with."""
    begun = read_manifest(Path(args.resume)).step if args.resume else 0
    return ProcgenGames(args.env_id, args.num_envs, args.seed + begun, record=args.capture_video)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One game with what training shows the agent and the rewards that training scales. Raises UsageError."""
    return ProcgenEnv(args.env_id, render_mode)


class ProcgenPolicy:
    """A trained agent's choice of actions."""

    def __init__(self, agent: Agent, first_action: int) -> None:
        self.agent, self.first_action = agent, first_action

    @torch.no_grad()
    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        """The likeliest actions, or ones drawn as in training."""
        logits = self.agent.actor(self.agent.features(torch.from_numpy(np.asarray(observations)))).numpy()
        return self.first_action + (logits if deterministic else logits + random.gumbel(size=logits.shape)).argmax(1)

    @torch.no_grad()
    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """How likely each action is, and what is expected of the state, in the scaled rewards of training."""
        logits, values = self.agent.policy_and_value(torch.from_numpy(np.asarray(observations)))
        return {"probabilities": logits.softmax(dim=1).numpy(), "value": values.numpy()}


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    agent = Agent(tuple(observation["shape"]), action["n"]).requires_grad_(False)
    fill(agent, "agent", checkpoint)
    return ProcgenPolicy(agent, action["start"])


def main() -> int:
    description = "Train with phasic policy gradient on a Procgen game."
    return run_script("ppg_procgen", description, Args, check, make_envs, train)


if __name__ == "__main__":
    sys.exit(main())
