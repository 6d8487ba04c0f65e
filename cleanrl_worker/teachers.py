"""QDagger's teachers: Q-networks from checkpoints or CleanRL's files, recognised by the shapes of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.pictures import as_pictures, is_picture, picture_size
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import CheckpointError
from mosaic_worker.state.plain_state import decode
from mosaic_worker.training.session import UsageError


def vector_network(sizes: list[int]) -> nn.Sequential:
    """Linear layers of these sizes with rectified units between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def part_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


class TeacherNetwork(nn.Module):
    """A network that was recognised; `scaled` ones look at pictures from 0 to 1, others at the bare numbers."""

    def __init__(self, network: nn.Sequential, of_pictures: bool) -> None:
        super().__init__()
        self.network, self.of_pictures = network, of_pictures

    def forward(self, observations: Tensor) -> Tensor:
        if self.of_pictures:
            return self.network(as_pictures(observations) / 255)
        return self.network(observations.flatten(1).float())


class Teacher:
    """The teacher's network and, as a checkpoint keeps them, its parameters."""

    def __init__(self, network: nn.Module, tensors: dict[str, Tensor]) -> None:
        self.network, self.tensors = network.requires_grad_(False), tensors


def find_teacher(name: str, args: Any, task: Any, student: Callable[[], nn.Module]) -> Teacher:
    """The teacher of this run; a resumed run has it in its checkpoint. Raises UsageError."""
    if args.resume:
        tensors, where = kept_teacher(name, Path(args.resume)), args.resume
    else:
        require(
            args.teacher_policy is not None,
            "--teacher-policy is needed: a checkpoint of dqn or of this script, or a CleanRL model file.",
        )
        assert args.teacher_policy is not None
        where = args.teacher_policy
        tensors = read_teacher(Path(where), args.env_id)
    assert isinstance(task.action_space, gym.spaces.Discrete)
    assert isinstance(task.observation_space, gym.spaces.Box)
    try:
        return Teacher(recognised(tensors, task.observation_space, int(task.action_space.n), student()), tensors)
    except ValueError as error:
        raise UsageError(f"{where} cannot teach {args.env_id}: {error}.") from error


def kept_teacher(name: str, path: Path) -> dict[str, Tensor]:
    try:
        found = checkpoints.load(path)
        kept = decode(found.manifest.state["teacher"]["tensors"], found.tensors)
    except CheckpointError as error:
        raise UsageError(str(error)) from error
    except KeyError as error:
        raise UsageError(f"{path} cannot be used: it was not written by {name}") from error
    return dict(kept)


def read_teacher(path: Path, env_id: str) -> dict[str, Tensor]:
    """The parameters of a teacher's Q-network. Raises UsageError."""
    if path.is_dir():
        return teacher_of_checkpoint(path, env_id)
    if not path.is_file():
        what = "a checkpoint directory of dqn or of this script, or a CleanRL model file"
        raise UsageError(f"There is no teacher at {path}; --teacher-policy names {what}.")
    return teacher_of_file(path)


def teacher_of_checkpoint(path: Path, env_id: str) -> dict[str, Tensor]:
    try:
        found = checkpoints.load(path)
    except CheckpointError as error:
        raise UsageError(f"The teacher cannot be used: {error}") from error
    tensors = part_of(found.tensors, "q_network.")
    algo, learned = found.manifest.algo, found.manifest.env_id
    require(bool(tensors), f"{path} cannot be a teacher: it is a checkpoint of {algo}, which has no Q-network.")
    if learned != env_id:
        print(f"The teacher learned in {learned}; this run is in {env_id}.", flush=True)
    return tensors


def teacher_of_file(path: Path) -> dict[str, Tensor]:
    """A state dict from a file of CleanRL's; a file that would have to run code to be read is refused."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 - tensors only, never code
    except Exception as error:  # a foreign file can be wrong in any way
        reason = " ".join(str(error).split())[:160]
        raise UsageError(
            f"{path} cannot be a teacher: it holds more than tensors, or is damaged ({reason})."
        ) from error
    plain = isinstance(found, dict) and all(isinstance(value, Tensor) for value in found.values())
    require(plain and bool(found), f"{path} cannot be a teacher: it is not the state dict of one network.")
    return {str(name): tensor for name, tensor in found.items()}


def recognised(tensors: Mapping[str, Tensor], space: gym.spaces.Box, actions: int, own: nn.Module) -> nn.Module:
    """The network that these parameters belong to: the student's own, one of linear layers, or that of DQN's paper.

    Raises ValueError, a clause, when there is none that fits.
    """
    if {name: t.shape for name, t in own.state_dict().items()} == {name: t.shape for name, t in tensors.items()}:
        own.load_state_dict(dict(tensors))
        return own
    names = sorted((name for name in tensors if name.endswith("weight")), key=_by_number)
    weights = [tensors[name] for name in names]
    ranks = [weight.dim() for weight in weights]
    if ranks and set(ranks) == {2}:
        network = TeacherNetwork(vector_network([weights[0].shape[1], *(len(weight) for weight in weights)]), False)
        given = weights[0].shape[1]
        if given != math.prod(space.shape):
            raise ValueError(f"its network looks at {given} numbers, there are {math.prod(space.shape)}")
    elif ranks == [4, 4, 4, 2, 2] and [weight.shape[2] for weight in weights[:3]] == [8, 4, 3]:
        network = TeacherNetwork(nature_network(weights, space), True)
    else:
        shapes = ", ".join("x".join(map(str, weight.shape)) for weight in weights[:6])
        raise ValueError(f"its network is of no kind known here (weights {shapes or 'missing'})")
    if len(weights[-1]) != actions:
        raise ValueError(f"its network values {len(weights[-1])} actions, there are {actions}")
    places = [index for index, layer in enumerate(network.network) if hasattr(layer, "weight")]
    load_in_order(network, dict(zip(names, places, strict=True)), tensors)
    return network


def _by_number(name: str) -> list[tuple[int, str]]:
    """network.10 comes after network.9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def nature_network(weights: list[Tensor], space: gym.spaces.Box) -> nn.Sequential:
    """The convolutional network of DQN's paper in Nature (Mnih et al., 2015)."""
    channels = picture_size(space.shape)[0] if is_picture(space.shape) else 0
    convolutions = [
        nn.Conv2d(weight.shape[1], len(weight), weight.shape[2], stride)
        for weight, stride in zip(weights[:3], (4, 2, 1), strict=True)
    ]
    if weights[0].shape[1] != channels:
        raise ValueError(f"its network looks at {weights[0].shape[1]} pictures, there are {channels}")
    linear = [nn.Linear(weight.shape[1], len(weight)) for weight in weights[3:]]
    network = nn.Sequential(
        *(layer for convolution in convolutions for layer in (convolution, nn.ReLU())),
        nn.Flatten(),
        linear[0],
        nn.ReLU(),
        linear[1],
    )
    try:
        network(torch.zeros(1, *picture_size(space.shape)))
    except RuntimeError as error:
        raise ValueError(f"its network is not made for pictures of {space.shape}") from error
    return network


def load_in_order(network: TeacherNetwork, places: dict[str, int], tensors: Mapping[str, Tensor]) -> None:
    """Give each layer the parameters that lie under a name; raises ValueError when they do not fit."""
    wanted = {}
    for name, place in places.items():
        bias = name.removesuffix("weight") + "bias"
        if bias not in tensors:
            raise ValueError(f"its {bias} is missing")
        wanted[f"network.{place}.weight"], wanted[f"network.{place}.bias"] = tensors[name], tensors[bias]
    try:
        network.load_state_dict(wanted)
    except RuntimeError as error:
        raise ValueError("the layers of its network do not fit each other") from error
