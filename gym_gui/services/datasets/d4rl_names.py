"""What the names of D4RL's datasets promise: where the file is, its dimensions, and the returns it is measured by."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ARCHIVE = "https://rail.eecs.berkeley.edu/datasets/offline_rl"
_MUJOCO = ("random", "medium", "expert", "medium-replay", "medium-expert", "full-replay")
_MAZES = {
    "umaze": "u-maze_noisy_multistart_False_multigoal_False",
    "umaze-diverse": "u-maze_noisy_multistart_True_multigoal_True",
    "medium-play": "big-maze_noisy_multistart_True_multigoal_False",
    "medium-diverse": "big-maze_noisy_multistart_True_multigoal_True",
    "large-play": "hardest-maze_noisy_multistart_True_multigoal_False",
    "large-diverse": "hardest-maze_noisy_multistart_True_multigoal_True",
}
_QUALITY = {
    "random": (-15.0, 15.0),
    "medium-replay": (2.0, 95.0),
    "medium-expert": (40.0, 125.0),
    "medium": (15.0, 85.0),
    "expert": (75.0, 135.0),
}
"""The range that the mean of normalised returns of such data may be expected in, generously."""


@dataclass(frozen=True)
class Promise:
    """What a family of datasets has."""

    observations: int
    actions: int
    horizon: int
    random: float
    """D4RL's references: what counts as 0 and as 100."""
    expert: float
    env_id: str | None = None
    """The environment of Gymnasium with the same spaces and nearly the same rewards, where there is one."""
    least_length: int = 1


_FAMILIES = {
    "hopper": Promise(11, 3, 1000, -20.272305, 3234.3, "Hopper-v5"),
    "halfcheetah": Promise(17, 6, 1000, -280.178953, 12135.0, "HalfCheetah-v5", least_length=1000),
    "walker2d": Promise(17, 6, 1000, 1.629008, 4592.3, "Walker2d-v5"),
    "ant": Promise(111, 8, 1000, -325.6, 3879.7),
    "antmaze-umaze": Promise(29, 8, 700, 0.0, 1.0),
    "antmaze": Promise(29, 8, 1000, 0.0, 1.0),
    "pen": Promise(45, 24, 200, 96.262799, 3076.8331017826877),
    "hammer": Promise(46, 26, 200, -274.856578, 12794.134825156867),
    "door": Promise(39, 28, 200, -56.512833, 2880.5693087298737),
    "relocate": Promise(39, 30, 200, -6.425911, 4233.877797728884),
}
_NAME = re.compile(
    r"(?P<family>hopper|halfcheetah|walker2d|ant|pen|hammer|door|relocate)-(?P<rest>[a-z-]+?)(?:-v[0-9]+)?"
    r"|antmaze-(?P<maze>umaze|medium|large)(?:-[a-z]+)?(?:-v[0-9]+)?"
)


def promise_of(name: str) -> Promise | None:
    """What a name such as ``hopper-medium-v2`` promises; None for names that are not D4RL's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    if found["maze"]:
        return _FAMILIES["antmaze-umaze" if found["maze"] == "umaze" else "antmaze"]
    return _FAMILIES[found["family"]]


def quality_of(name: str) -> tuple[str, float, float] | None:
    """The word of a name that says how good its policy was, and the range of the mean normalised return."""
    found = _NAME.fullmatch(name)
    if found is None or found["maze"] or found["family"] not in ("hopper", "halfcheetah", "walker2d"):
        return None
    word = next((word for word in _QUALITY if found["rest"] == word), None)
    return (word, *_QUALITY[word]) if word else None


def url_of(name: str) -> str | None:
    """Where a dataset of this name can be downloaded; None for a name that D4RL's archive does not have."""
    return known_names().get(name)


def known_names() -> dict[str, str]:
    """Every name and its address: locomotion, AntMaze and Adroit."""
    found = {
        f"{body}-{kind}-v2": f"{_ARCHIVE}/gym_mujoco_v2/{body}_{kind.replace('-', '_')}-v2.hdf5"
        for body in ("hopper", "halfcheetah", "walker2d", "ant")
        for kind in _MUJOCO
    }
    found |= {
        f"antmaze-{maze}-v2": f"{_ARCHIVE}/ant_maze_v2/Ant_maze_{words}_sparse_fixed.hdf5"
        for maze, words in _MAZES.items()
    }
    return found | {
        f"{hand}-{kind}-v1": f"{_ARCHIVE}/hand_dapg_v1/{hand}-{kind}-v1.hdf5"
        for hand in ("pen", "hammer", "door", "relocate")
        for kind in ("human", "cloned", "expert")
    }
