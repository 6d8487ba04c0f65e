"""What a run learns from, and where it is judged: a dataset, and its environment where there is one."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym

from corl_worker.fit import misfit
from mosaic_worker.errors import UsageError
from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.environments import Environments, brief
from mosaic_worker.offline import OfflineDataset, open_dataset
from mosaic_worker.training.environments import make_env


class OfflineTask:
    """The dataset and the environments of one run; close it."""

    def __init__(self, dataset: OfflineDataset, env_id: str, env: gym.Env[Any, Any] | None, online: Any) -> None:
        self.dataset, self.env_id, self.env, self.online = dataset, env_id, env, online
        # The environment's own description is the one that a deployed policy is compared with.
        self.observation_space = dataset.observation_space if env is None else env.observation_space
        self.action_space: Any = dataset.action_space if env is None else env.action_space

    @property
    def is_discrete(self) -> bool:
        return isinstance(self.action_space, gym.spaces.Discrete)

    @property
    def observation_size(self) -> int:
        """Numbers in a flattened observation."""
        space: Any = self.observation_space
        return int(space.n) if isinstance(space, gym.spaces.Discrete) else math.prod(space.shape)

    @property
    def action_size(self) -> int:
        """Numbers in an action; of discrete ones, how many there are."""
        return int(self.action_space.n) if self.is_discrete else math.prod(self.action_space.shape)

    def score(self, mean_return: float) -> float | None:
        """On the scale from random (0) to expert (100) of the dataset's references; None where it has none."""
        found = self.dataset.manifest.references
        return None if found is None else found.normalised(mean_return)

    def described(self) -> dict[str, Any]:
        """What checkpoints say of the data."""
        told: dict[str, Any] = dict(self.dataset.describe())
        if (found := self.dataset.manifest.references) is not None:
            told["references"] = {"whose": found.whose, "random": found.random, "expert": found.expert}
        return told

    def introduce(self) -> None:
        """Say what there is to learn from and how it will be judged, in the run's log."""
        data, found = self.dataset, self.dataset.manifest.references
        print(f"Dataset {data.name}: {data.rows:,} transitions of {data.episodes:,} episodes, {data.sha256[:12]}.")
        if self.env is None:
            print("Nothing is played during this run; judge its checkpoints by estimates: mosaic eval --offline.")
        elif found is None:
            print("Returns are not normalised: the dataset has no reference scores.")
        else:
            scale = f"0 is {found.random:.1f} (random), 100 is {found.expert:.1f} (expert)"
            print(f"charts/normalized_score: {scale}, references of {found.whose}.", flush=True)

    def close(self) -> None:
        self.dataset.close()
        for one in (self.env, self.online):
            if one is not None:
                one.close()


def open_task(name: str, args: Any, actions: tuple[str, ...] = ("discrete", "continuous")) -> OfflineTask:
    """Open what the arguments of a script name, and note the environment in them. Raises UsageError.

    The data is hashed again. The environment is the dataset's own unless another one with its spaces is given; without
    one a run trains all the same, unless it is to go on in it.
    """
    require(bool(args.dataset), f"--dataset is missing: {name} learns from a dataset.")
    dataset = open_dataset(args.dataset)
    try:
        _check_spaces(name, dataset, actions)
        online_steps = getattr(args, "online_steps", 0)
        asked = args.env_id not in ("", dataset.env_id)
        args.env_id = args.env_id or dataset.env_id
        env = _environment(args.env_id, dataset, needed=asked or online_steps > 0) if _is_played(args) else None
        online = None
        if online_steps:
            online = Environments([make_env(args.env_id, record=getattr(args, "capture_video", False))])
        return OfflineTask(dataset, args.env_id, env, online)
    except UsageError:
        dataset.close()
        raise


def _is_played(args: Any) -> bool:
    return bool(args.eval_freq or getattr(args, "online_steps", 0))


def _environment(env_id: str, dataset: OfflineDataset, *, needed: bool) -> gym.Env[Any, Any] | None:
    try:
        require(bool(env_id), f"The dataset {dataset.name!r} does not say which environment it is of: give --env-id.")
        env = make_env(env_id)
        if why := misfit(env_id, env.observation_space, env.action_space, dataset):
            env.close()
            raise UsageError(why)
    except UsageError as error:
        if needed:
            raise
        print(f"No evaluation: {error}", flush=True)
        return None
    return env


def _check_spaces(name: str, dataset: OfflineDataset, actions: tuple[str, ...]) -> None:
    observation, action = dataset.observation_space, dataset.action_space
    known = isinstance(observation, gym.spaces.Box | gym.spaces.Discrete)
    require(known, f"{name} learns from Box or Discrete observations; {dataset.name} has {brief(observation)}.")
    kind = "discrete" if isinstance(action, gym.spaces.Discrete) else "continuous"
    wanted = " or ".join(actions)
    require(kind in actions, f"{name} needs {wanted} actions; the dataset {dataset.name} has {brief(action)}.")
    bounded = kind == "discrete" or (isinstance(action, gym.spaces.Box) and action.is_bounded())
    require(bounded, f"{name} needs bounded actions; those of the dataset {dataset.name} are not.")
