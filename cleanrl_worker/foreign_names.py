"""What CleanRL calls the parameters of its networks, and what they are called here.

A network of CleanRL's that has a twin here has the same layers under the same names; what differs is the name of the
whole, and that the two critics of SAC and TD3 are one module here. A table says which is which.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Layout:
    """How the parameters of one algorithm are named in CleanRL's files and here."""

    whole: str
    """Our module that holds what CleanRL saves without any prefix."""
    also: dict[str, str] = field(default_factory=dict)
    """Prefix in the file → here, where they differ in more than the name of the whole."""
    twins: tuple[tuple[str, str], ...] = ()
    """Prefixes in the file of the first and of the second critic."""
    copies: dict[str, str] = field(default_factory=dict)
    """Our module that begins as a copy → of which."""
    optional: tuple[str, ...] = ()
    """Our modules, or parts of one, that a policy can act without."""
    ignored: tuple[str, ...] = ()
    """Names in the file that need no place here."""


def _impala_layers() -> dict[str, str]:
    """The convolutions of PPG's network, which CleanRL groups in threes and which stand in one row here."""
    found = {"network.5": "agent.network.14"}
    for group in range(3):
        found[f"network.{group}.conv"] = f"agent.network.{4 * group}"
        for block in range(2):
            for number, ours in enumerate(("first", "second")):
                found[f"network.{group}.res_block{block}.conv{number}"] = (
                    f"agent.network.{4 * group + 2 + block}.{ours}"
                )
    return found


_TWINS = (("1", "2"), ("qf1", "qf2"))
LAYOUTS = {
    "ppo": Layout("agent", optional=("agent.critic",)),
    "ppo_continuous_action": Layout("agent", optional=("agent.critic", "normaliser")),
    "ppo_atari": Layout("agent", optional=("agent.critic",)),
    "ppo_rnd_envpool": Layout(
        "agent", {"rnd_model": "curiosity"}, optional=("agent.critic_ext", "agent.critic_int", "curiosity")
    ),
    "ppg_procgen": Layout("agent", _impala_layers(), optional=("agent.critic", "agent.aux_critic")),
    "dqn": Layout("q_network", copies={"target_network": "q_network"}),
    "c51": Layout("q_network", copies={"target_network": "q_network"}, ignored=("atoms", "n_atoms")),
    "sac_continuous_action": Layout(
        "actor",
        {"0": "actor", "actor": "actor"},
        _TWINS,
        copies={"target_critics": "critics"},
        optional=("critics", "target_critics"),
    ),
    "td3_continuous_action": Layout(
        "actor",
        {"0": "actor", "actor": "actor"},
        _TWINS,
        copies={"target_critics": "critics", "target_actor": "actor"},
        optional=("critics", "target_critics"),
    ),
}


@dataclass(frozen=True)
class Fitted:
    """A file's tensors under our names, complete: what the file does not have is ``fresh``, as a new run begins."""

    tensors: Tensors
    fresh: list[str]
    problems: list[str]


def fit(theirs: Tensors, ours: Tensors, layout: Layout) -> Fitted:
    """Give our tensors the values of a file's. ``problems`` says in what it does not fit; it is [] when it does."""
    named, unknown = _renamed(theirs, ours, layout)
    for copy, original in layout.copies.items():
        for name in [name for name in ours if name.startswith(f"{copy}.") and name not in named]:
            if (source := original + name.removeprefix(copy)) in named:
                named[name] = named[source]
    problems = [f"{name} is not known here" for name in unknown]
    tensors, fresh = {}, []
    for name, mine in ours.items():
        given = named.get(name)
        if given is None:
            fresh.append(name)
            if not _is_within(name, layout.optional):
                problems.append(f"{name} {list(mine.shape)} is missing")
        elif given.shape != mine.shape:
            problems.append(f"{name} is {list(given.shape)} in the file and {list(mine.shape)} here")
        tensors[name] = mine if given is None or given.shape != mine.shape else given.to(mine.dtype)
    return Fitted(tensors, fresh, problems)


def _renamed(theirs: Tensors, ours: Tensors, layout: Layout) -> tuple[Tensors, list[str]]:
    """(tensors under our names, names that have no place here)"""
    named = _joined_critics(theirs, layout)
    used = {name for pair in layout.twins for prefix in pair for name in theirs if name.startswith(f"{prefix}.")}
    unknown = []
    for name, tensor in theirs.items():
        place = next((one for one in _places(name, layout) if one in ours), None)
        if place is not None:
            named[place] = tensor
        elif name not in used and name.rpartition(".")[2] not in layout.ignored:
            unknown.append(name)
    return named, unknown


def _places(name: str, layout: Layout) -> list[str]:
    moved = [ours + name.removeprefix(prefix) for prefix, ours in layout.also.items() if name.startswith(f"{prefix}.")]
    return [*moved, name, f"{layout.whole}.{name}"]


def _joined_critics(theirs: Tensors, layout: Layout) -> Tensors:
    """Both critics of SAC and TD3 as one module: weights transposed, side by side in a leading dimension."""
    for pair in layout.twins:
        both = [[theirs.get(f"{prefix}.fc{layer}.{kind}") for prefix in pair] for layer, kind in _CRITIC_PARTS]
        if all(part is not None for parts in both for part in parts):
            return {
                f"critics.{kind}_{layer}": torch.stack(
                    [part.T if part.ndim == 2 else part[None] for part in parts if part is not None]
                )
                for (layer, kind), parts in zip(_CRITIC_PARTS, both, strict=True)
            }
    return {}


_CRITIC_PARTS = [(layer, kind) for layer in (1, 2, 3) for kind in ("weight", "bias")]


def _is_within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)
