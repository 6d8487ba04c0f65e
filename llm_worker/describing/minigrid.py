"""MiniGrid in words: what the agent sees before it, as a map and as a list."""

from __future__ import annotations

from typing import Any

import numpy as np

from llm_worker.describing.describer import PlainDescriber, Seen

_OBJECTS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")
_DRAWN = "?.#.DKOBGL@"
_FACING = ("east", "south", "west", "north")
_TOLD = (4, 5, 6, 7, 8, 9)
"""Kinds that are listed: all but walls, floor and the agent."""
_FORWARD, _PICK_UP = 2, 3
_PASSABLE = ("empty", "floor", "goal")


class MiniGrid(PlainDescriber):
    family = "minigrid"
    actions: tuple[str, ...] = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
    idle = 6
    rules = (
        "You are an agent in a world of cells. You see the cells before you: in the map you are the @ in the middle of "
        "the last line, looking up. # is a wall, . is free, D a door, K a key, O a ball, B a box, G the goal, L lava, "
        "? not seen. go forward moves one cell ahead, pick up and toggle act on the cell ahead. Locked doors need the "
        "key of their colour. Reaching the goal ends the episode with a reward; lava ends it without one."
    )

    def __init__(self, env: Any) -> None:
        count = int(env.action_space.n)
        self.actions = type(self).actions[:count]
        self.idle = count - 1 if count > _PICK_UP else 0

    def describe(self, observation: Any) -> Seen:
        image = np.asarray(observation["image"])
        mission = str(observation.get("mission", ""))
        facing = _FACING[int(observation.get("direction", 0)) % 4]
        width, height = image.shape[:2]
        middle, last = width // 2, height - 1
        lines = []
        for y in range(height):
            marks = "".join(_DRAWN[min(int(image[x, y, 0]), 10)] for x in range(width))
            lines.append(marks[:middle] + "@" + marks[middle + 1 :] if y == last else marks)
        things = [
            f"{self.thing(image[x, y])} {_place(last - y, x - middle)}"
            for y in range(height - 1, -1, -1)
            for x in range(width)
            if (x, y) != (middle, last) and int(image[x, y, 0]) in _TOLD
        ]
        carried = int(image[middle, last, 0])
        told = [f"Mission: {mission}."] if mission else []
        told.append(f"You look {facing}. Ahead of you: {self.thing(image[middle, last - 1])}.")
        told.append(f"You see: {'; '.join(things)}." if things else "You see nothing but walls and floor.")
        if carried in (5, 6, 7):
            told.append(f"You carry {self.thing(image[middle, last])}.")
        return Seen("\n".join([*lines, " ".join(told)]))

    @staticmethod
    def thing(cell: Any) -> str:
        kind, colour, state = (int(one) for one in cell)
        name = _OBJECTS[min(kind, len(_OBJECTS) - 1)]
        if name == "door":
            return f"a {_DOORS[min(state, 2)]} {_COLOURS[colour % 6]} door"
        if name in ("key", "ball", "box"):
            return f"a {_COLOURS[colour % 6]} {name}"
        return {"goal": "the goal", "lava": "lava", "wall": "a wall", "unseen": "not seen"}.get(name, "free")

    def expects(self, observation: Any, action: int) -> Any:
        """Only that a move against something changes nothing; what comes into sight nobody can say."""
        image = np.asarray(observation["image"])
        ahead = image[image.shape[0] // 2, image.shape[1] - 2]
        name = _OBJECTS[min(int(ahead[0]), 10)]
        blocked = name not in (*_PASSABLE, "lava") and not (name == "door" and int(ahead[2]) == 0)
        return observation if action == _FORWARD and blocked else None


def _place(ahead: int, aside: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    parts += [f"{abs(aside)} {'right' if aside > 0 else 'left'}"] if aside else []
    return " and ".join(parts)
