"""Proximal Policy Optimization (Schulman et al., 2017), compiled: environments, rollout and update are one program.

    python cleanrl_worker/cleanrl/ppo_jax.py --env-id CartPole-v1 --total-timesteps 50000

The twin of ``ppo.py`` for environments that exist in JAX (`mosaic_worker.compiled`): same flags, same tags, and
checkpoints with the same tensors, which act through either. The run counts in whole rollouts, between which it can be
paused, stopped and resumed to the bit. The first run of a shape is compiled, which takes some seconds; it is kept.
With ``--seeds 16`` one program trains 16 learners side by side, each of which becomes a run of its own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from mosaic_protocol.seed_runs import MOST
from mosaic_worker.compiled import environment
from mosaic_worker.compiled.adam import Moments, clipped, descended, no_moments
from mosaic_worker.compiled.carried import Carried, CarriedPart, side_by_side
from mosaic_worker.compiled.environment import CompiledEnvs, Rows, Seen
from mosaic_worker.compiled.names import require_compiled, require_jax
from mosaic_worker.compiled.networks import Arrays, orthogonal_layers, tanh_network
from mosaic_worker.compiled.xla import jax, jnp, start
from mosaic_worker.learning.argument_checks import check_minibatches, check_ranges, require
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.seed_session import SeedSession
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "ppo_jax"
LOST = "The loss is no longer finite; a lower --learning-rate may help."
TRACED = ("gamma", "gae_lambda", "clip_coef", "ent_coef", "vf_coef", "max_grad_norm", "target_kl")


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Understood for CleanRL's sake; a compiled environment draws nothing, so it is refused."""

    env_id: str = "CartPole-v1"
    """Name of an environment that is compiled: CartPole-v1, Acrobot-v1 or MountainCar-v0."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up to whole rollouts."""
    learning_rate: float = 2.5e-4
    """Step size of Adam at the start."""
    num_envs: int = 4
    """How many environments are stepped side by side; with many, a step costs little more."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 4
    """Parts of equal size that a rollout is cut into for gradient steps."""
    update_epochs: int = 4
    """Passes over each rollout."""
    norm_adv: bool = True
    """Normalise the advantages of every minibatch."""
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

    seeds: int = 1
    """How many seeds to train in one program, from --seed on; each becomes a run of its own when all are done."""
    xla_threads: int = 1
    """CPU threads for JAX; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint of this script or of ppo whose networks to begin with; everything else starts from the beginning."""


class Shape(NamedTuple):
    """What another program has to be compiled for; all else of the arguments is given to it."""

    env_id: str
    num_envs: int
    num_steps: int
    num_minibatches: int
    update_epochs: int
    norm_adv: bool
    clip_vloss: bool
    has_target: bool


class Learner(NamedTuple):
    """What goes from one update to the next."""

    learned: Arrays
    moments: Moments
    key: jax.Array
    rows: Rows


class Batch(NamedTuple):
    """A rollout, one row for each step of each environment."""

    observations: jax.Array
    actions: jax.Array
    log_probs: jax.Array
    advantages: jax.Array
    returns: jax.Array
    values: jax.Array


Knobs = dict[str, Any]


def first_learner(args: Args, envs: CompiledEnvs) -> Learner:
    """Separate actor and critic, each with two hidden layers of 64 tanh units, and environments at their start."""
    random = np.random.default_rng(args.seed)
    size, actions = math.prod(envs.single_observation_space.shape), int(envs.single_action_space.n)
    gains = math.sqrt(2), math.sqrt(2)
    layers = orthogonal_layers(random, "critic", (size, 64, 64, 1), (*gains, 1.0))
    layers |= orthogonal_layers(random, "actor", (size, 64, 64, actions), (*gains, 0.01))
    learned = jax.device_put(layers)
    key = jax.device_put(np.array([args.seed >> 32, args.seed & 0xFFFFFFFF], np.uint32))
    chances = random.random((args.num_envs, envs.world.CHANCES), dtype=np.float32)
    return Learner(learned, no_moments(learned), key, beginning(envs.env_id)(chances))


@cache
def beginning(env_id: str) -> Any:
    """Environments at the start of an episode as a compiled function of chances."""
    return jax.jit(partial(environment.begin, CompiledEnvs(env_id, 1).world))


def rollout(envs: CompiledEnvs, steps: int, learner: Learner, key: jax.Array) -> tuple[Rows, Any]:
    """Play `steps` steps in every environment; (where they stand, what was seen, step by step)."""
    world, count = envs.world, envs.num_envs
    for_noise, for_chances = jax.random.split(key)
    # Adding Gumbel noise and taking the largest draws from the softmax.
    noise = jax.random.gumbel(for_noise, (steps, count, int(envs.single_action_space.n)))
    chances = jax.random.uniform(for_chances, (steps, count, world.CHANCES))

    def step(rows: Rows, drawn: Any) -> Any:
        noise, chances = drawn
        logits = tanh_network(learner.learned, "actor", rows.observation)
        actions = jnp.argmax(logits + noise, axis=1)
        after, seen = environment.step(world, envs.time_limit, rows, actions, chances)
        return after, (rows.observation, actions, logits, seen)

    return jax.lax.scan(step, learner.rows, (noise, chances))


def advantages_of(seen: Seen, values: jax.Array, next_values: jax.Array, knobs: Knobs) -> jax.Array:
    """Generalised advantage estimates: the value after a terminated step counts for nothing, after a truncated one it
    counts, and the steps that follow either belong to another episode."""
    errors = seen.rewards + knobs["gamma"] * next_values * ~seen.terminated - values
    carry = knobs["gamma"] * knobs["gae_lambda"] * ~(seen.terminated | seen.truncated)

    def before(following: jax.Array, now: Any) -> Any:
        found = now[0] + now[1] * following
        return found, found

    return jax.lax.scan(before, jnp.zeros_like(errors[0]), (errors, carry), reverse=True)[1]


def evaluated(learned: Arrays, played: Any, last: jax.Array, knobs: Knobs) -> Batch:
    """Values, log-probabilities and advantages of a rollout, under the policy that produced it."""
    observations, actions, logits, seen = played
    critic = partial(tanh_network, learned, "critic")
    all_values = critic(jnp.concatenate([observations, last[None]]))[..., 0]
    values, next_values = all_values[:-1], all_values[1:]
    next_values = jax.lax.cond(  # where a time limit cut an episode off, what the critic says of the state it was in
        seen.truncated.any(),
        lambda: jnp.where(seen.truncated, critic(seen.following)[..., 0], next_values),
        lambda: next_values,
    )
    advantages = advantages_of(seen, values, next_values, knobs)
    log_probs = jnp.take_along_axis(jax.nn.log_softmax(logits), actions[..., None], axis=-1)[..., 0]
    batch = Batch(observations, actions, log_probs, advantages, advantages + values, values)
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), batch)


def losses_of(learned: Arrays, batch: Batch, shape: Shape, knobs: Knobs) -> tuple[jax.Array, Any]:
    """The clipped objective of the policy, the error of the critic and the entropy bonus; (their sum, the parts)."""
    all_log_probs = jax.nn.log_softmax(tanh_network(learned, "actor", batch.observations))
    entropy = -(jnp.exp(all_log_probs) * all_log_probs).sum(axis=1).mean()
    log_ratios = jnp.take_along_axis(all_log_probs, batch.actions[:, None], axis=1)[:, 0] - batch.log_probs

    advantages = batch.advantages
    if shape.norm_adv and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)
    # min(r A, clip(r, 1 - c, 1 + c) A) is min(r A, A + c |A|), which needs no second product.
    bounds = advantages + knobs["clip_coef"] * jnp.abs(advantages)
    policy = -jnp.minimum(advantages * jnp.exp(log_ratios), bounds).mean()

    values = tanh_network(learned, "critic", batch.observations)[:, 0]
    squared = (values - batch.returns) ** 2
    if shape.clip_vloss:
        near = batch.values + jnp.clip(values - batch.values, -knobs["clip_coef"], knobs["clip_coef"])
        squared = jnp.maximum(squared, (near - batch.returns) ** 2)
    value = 0.5 * squared.mean()

    total = policy - knobs["ent_coef"] * entropy + knobs["vf_coef"] * value
    return total, (policy, value, entropy, log_ratios)


def improved(learner: Learner, batch: Batch, shape: Shape, knobs: Knobs, key: jax.Array) -> tuple[Learner, Any]:
    """Several passes over a rollout, in minibatches; (the learner, what to log about them)."""
    slope = jax.value_and_grad(losses_of, has_aux=True)

    def descend(at: Any, minibatch: Batch) -> Any:
        (total, (policy, value, entropy, log_ratios)), gradients = slope(at[0], minibatch, shape, knobs)
        gradients = clipped(gradients, knobs["max_grad_norm"])
        at = descended(at[0], gradients, at[1], knobs["learning_rate"], epsilon=1e-5)
        ratios = jnp.exp(log_ratios)
        kl = (ratios - 1 - log_ratios).mean()
        clipped_share = (jnp.abs(ratios - 1) > knobs["clip_coef"]).mean()
        return at, (total, policy, value, entropy, -log_ratios.mean(), kl, clipped_share)

    def one_pass(at: Any, key: jax.Array) -> Any:
        order = jax.random.permutation(key, len(batch.actions))
        parts = jax.tree.map(
            lambda all_rows: all_rows[order].reshape(shape.num_minibatches, -1, *all_rows.shape[1:]), batch
        )
        return jax.lax.scan(descend, at, parts)

    def one_pass_if_near(at: Any, key: jax.Array) -> Any:
        """No further pass once the policy moved too far; `at` holds what the last one told."""
        *learned, told, done = at

        def go() -> Any:
            after, found = one_pass(tuple(learned), key)
            return *after, found, done + 1

        near = (done == 0) | (told[5][-1] <= knobs["target_kl"])
        return jax.lax.cond(near, go, lambda: tuple(at)), None

    at: Any = learner.learned, learner.moments
    keys = jax.random.split(key, shape.update_epochs)
    if shape.has_target:
        nothing = tuple(jnp.zeros(shape.num_minibatches) for _ in range(7))
        (*at, told, _), _ = jax.lax.scan(one_pass_if_near, (*at, nothing, 0), keys)
        share = told[6].mean()
    else:
        at, all_told = jax.lax.scan(one_pass, at, keys)
        told, share = [part[-1] for part in all_told], all_told[6].mean()
    total, policy, value, entropy, old_kl, kl, _ = (part[-1] for part in told)
    variance = batch.returns.var()
    explained = jnp.where(variance > 0, 1 - (batch.returns - batch.values).var() / variance, jnp.nan)
    figures = {
        "losses/value_loss": value,
        "losses/policy_loss": policy,
        "losses/entropy": entropy,
        "losses/old_approx_kl": old_kl,
        "losses/approx_kl": kl,
        "losses/clipfrac": share,
        "losses/explained_variance": explained,
    }
    lost = sum(values.sum() for values in at[0].values())  # not finite as soon as one parameter is not
    return learner._replace(learned=at[0], moments=at[1]), (total + 0 * lost, figures)


@cache
def program(shape: Shape, *, is_of_seeds: bool = False) -> Any:
    """One rollout and its update as one compiled function of (learner, knobs); `is_of_seeds`: of learners side by
    side."""
    envs = CompiledEnvs(shape.env_id, shape.num_envs)

    def update(learner: Learner, knobs: Knobs) -> Any:
        key, for_rollout, for_passes = jax.random.split(learner.key, 3)
        rows, played = rollout(envs, shape.num_steps, learner, for_rollout)
        batch = evaluated(learner.learned, played, rows.observation, knobs)
        learner, told = improved(learner, batch, shape, knobs, for_passes)
        seen: Seen = played[3]
        ended = seen.terminated | seen.truncated
        return learner._replace(key=key, rows=rows), told, (ended, seen.returns, seen.lengths)

    return jax.jit(jax.vmap(update, in_axes=(0, None)) if is_of_seeds else update, donate_argnums=0)


def train(args: Args, envs: CompiledEnvs, session: TrainingSession) -> None:
    if args.seeds > 1:
        train_seeds(args, envs, session)
        return
    update = program(shape_of(args))
    carried, counter = Carried(first_learner(args, envs)), Counter()
    run = run_state(args, envs, session, carried, counter)
    run.restore()

    batch_size, steps = args.num_envs * args.num_steps, steps_of(args)
    knobs = knobs_of(args)
    session.begin(steps)
    while counter.global_step < steps:
        session.safe_point(counter.global_step)
        if session.stop_requested:
            break
        knobs["learning_rate"] = rate_at(args, counter.global_step)
        carried.value, (total, figures), episodes = update(carried.value, knobs)
        tell_episodes(session, counter.global_step, *map(np.asarray, episodes))
        counter.global_step += batch_size
        if not math.isfinite(float(total)):
            raise FloatingPointError(LOST)
        logged = {tag: float(value) for tag, value in figures.items()}
        logged["charts/learning_rate"] = float(knobs["learning_rate"])
        logged["charts/SPS"] = run.steps_per_second
        session.scalars(counter.global_step, logged)
        run.save_if_due()
    run.save_last()


class Counter:
    """Counts environment steps."""

    global_step = 0


def run_state(args: Args, envs: CompiledEnvs, session: TrainingSession, carried: Carried, counter: Counter) -> RunState:
    """What a checkpoint keeps."""
    state = TrainingState()
    state.arrays("agent", carried, "learned")
    state.attributes("learner", carried, "rest")
    state.attributes("counter", counter, "global_step")
    return RunState(session, state, envs, args, counter, fixed=("num_envs", "num_steps"))


def steps_of(args: Args) -> int:
    """Environment steps in all, of each seed."""
    batch_size = args.num_envs * args.num_steps
    return math.ceil(args.total_timesteps / batch_size) * batch_size


def knobs_of(args: Args) -> Knobs:
    return {name: np.float32(getattr(args, name) or 0) for name in TRACED}


def rate_at(args: Args, step: int) -> np.float32:
    return np.float32(args.learning_rate * (1 - step / steps_of(args) if args.anneal_lr else 1.0))


class Seed:
    """One of several learners: what it tells, and what it leaves."""

    def __init__(self, args: Args, envs: CompiledEnvs, session: SeedSession, together: Carried, number: int) -> None:
        self.session, self.counter = session, Counter()
        self.run = run_state(args, envs, session, CarriedPart(together, number), self.counter)
        self.run.restore()

    def tell(self, total: float, logged: dict[str, float], episodes: Any, batch_size: int) -> None:
        """What an update brought. A learner whose loss is not finite any more is lost, with its last good checkpoint
        kept; nothing of it reaches the others, which go on."""
        tell_episodes(self.session, self.counter.global_step, *episodes)
        self.counter.global_step += batch_size
        if math.isfinite(total):
            self.session.scalars(self.counter.global_step, logged)
        else:
            print(f"Seed {self.session.seed} is lost, the others go on: {LOST}", flush=True)
            self.session.say_failed(LOST)


def train_seeds(args: Args, envs: CompiledEnvs, session: TrainingSession) -> None:
    """Learners of several seeds, updated by one program. Each has a session of its own within that of the run, whose
    figures are means over the seeds that are left; it is paused and stopped as one."""
    update = program(shape_of(args), is_of_seeds=True)
    numbers = range(args.seed, args.seed + args.seeds)
    together = Carried(side_by_side([first_learner(replace(args, seed=seed), envs) for seed in numbers]))
    batch_size, steps, knobs, step = args.num_envs * args.num_steps, steps_of(args), knobs_of(args), 0
    with ExitStack() as stack:
        told = asdict(args)
        sessions = [SeedSession(session, told, ALGORITHM, seed, args.seeds) for seed in numbers]
        for one in sessions:
            stack.enter_context(one)
        seeds = [Seed(args, envs, one, together, number) for number, one in enumerate(sessions)]
        session.begin(steps)
        for one in sessions:
            one.begin(steps)
        while step < steps:
            session.safe_point(step)
            if session.stop_requested:
                break
            knobs["learning_rate"] = rate_at(args, step)
            together.value, (totals, figures), episodes = update(together.value, knobs)
            step += batch_size
            totals, figures, episodes = jax.tree.map(np.asarray, (totals, figures, episodes))
            speed = {
                "charts/learning_rate": float(knobs["learning_rate"]),
                "charts/SPS": session.steps_per_second(step),
            }
            for number, seed in enumerate(seeds):
                if not seed.session.is_over:
                    logged = {tag: float(values[number]) for tag, values in figures.items()} | speed
                    seed.tell(float(totals[number]), logged, [part[number] for part in episodes], batch_size)
            left = [number for number, seed in enumerate(seeds) if not seed.session.is_over]
            if not left:
                raise FloatingPointError(f"Every seed is lost. {LOST}")
            tell_means(session, step, left, figures, episodes, speed)
            if session.is_checkpoint_due(step):
                session.note_saved(step)
                for number in left:
                    seeds[number].run.save(required=False)
        for seed in seeds:
            if not seed.session.is_over:
                seed.run.save_last()
                (seed.session.say_completed if step >= steps else seed.session.say_stopped)()
    session.note_step(step)


def tell_means(
    session: TrainingSession, step: int, left: Sequence[int], figures: Any, episodes: Any, speed: Any
) -> None:
    """What the seeds that are left logged, in the mean: episodes, losses, and the steps of all of them a second."""
    ended, returns, lengths = (part[left] for part in episodes)
    if ended.any():
        found = {"charts/episodic_return": returns[ended].mean(), "charts/episodic_length": lengths[ended].mean()}
        session.scalars(step, found, returns=returns[ended].tolist())
    means = {tag: float(values[left].mean()) for tag, values in figures.items()}
    session.scalars(step, means | speed | {"charts/SPS": speed["charts/SPS"] * len(left)})


def tell_episodes(session: TrainingSession, before: int, ended: Any, returns: Any, lengths: Any) -> None:
    """Each episode that ended in a rollout, at the step that it ended with."""
    for step, env in np.argwhere(ended):
        told = {"charts/episodic_return": returns[step, env], "charts/episodic_length": lengths[step, env]}
        session.scalars(before + (int(step) + 1) * ended.shape[1], told)


def shape_of(args: Args) -> Shape:
    named = {name: getattr(args, name) for name in Shape._fields if name != "has_target"}
    return Shape(**named, has_target=args.target_kl is not None)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    require_jax(ALGORITHM)
    check_ranges(
        args,
        counts=("total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "seeds", "xla_threads"),
        not_negative=("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef"),
        positive=("learning_rate", "clip_coef", "max_grad_norm", "target_kl"),
        fractions=("gamma", "gae_lambda"),
    )
    check_minibatches(args)
    check_seeds(args)
    rows = args.num_envs * args.num_steps
    require(
        rows % args.num_minibatches == 0,
        f"--num-minibatches must divide num-envs times num-steps ({rows}), got {args.num_minibatches}.",
    )
    require(
        not args.capture_video,
        "--capture-video: a compiled environment draws nothing; film the policy with mosaic eval --record.",
    )
    require_compiled(ALGORITHM, args.env_id, twin="ppo")


def check_seeds(args: Args) -> None:
    """Raise UsageError for what several seeds cannot share."""
    require(args.seeds <= MOST, f"--seeds must be at most {MOST}, got {args.seeds}.")
    if args.seeds > 1:
        require(not args.resume, "--resume goes on with one seed, from a checkpoint of its run: leave --seeds out.")
        require(not args.track, "--track sends one run to Weights & Biases: leave --seeds out, or send them later.")


def make_envs(args: Args) -> CompiledEnvs:
    """JAX set up, and the environments. Raises UsageError."""
    start(args.xla_threads, args.seed)
    return CompiledEnvs(args.env_id, args.num_envs)


def main() -> int:
    description = "Train with PPO on a compiled environment with discrete actions."
    return run_script(ALGORITHM, description, Args, check, make_envs, train, twin="ppo")


if __name__ == "__main__":
    sys.exit(main())
