"""FrozenLake, CliffWalking, Taxi and Blackjack in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from llm_worker.describing.describer import PlainDescriber, Seen

_MOVES = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
_CELLS = {"S": "start", "F": "ice", "H": "hole", "G": "goal"}


class _Grid(PlainDescriber):
    """A world of rows and columns whose state is the number of a cell."""

    family = "toy text"
    order: tuple[str, ...] = ()

    def __init__(self, rows: list[str], goal: tuple[int, int]) -> None:
        self.rows, self.goal = rows, goal
        self.height, self.width = len(rows), len(rows[0])
        self.actions = self.order

    def place(self, observation: Any) -> tuple[int, int]:
        return divmod(int(observation), self.width)

    def cell(self, row: int, column: int) -> str:
        if not (0 <= row < self.height and 0 <= column < self.width):
            return "wall"
        return _CELLS.get(self.rows[row][column], "ground")

    def describe(self, observation: Any) -> Seen:
        row, column = self.place(observation)
        drawn = [list(one) for one in self.rows]
        drawn[row][column] = "@"
        picture = "\n".join("".join(line) for line in drawn)
        beside = ", ".join(f"{word} {self.cell(row + y, column + x)}" for word, (y, x) in self._around())
        down, right = self.goal[0] - row, self.goal[1] - column
        way = [f"{abs(down)} {'down' if down > 0 else 'up'}"] if down else []
        way += [f"{abs(right)} {'right' if right > 0 else 'left'}"] if right else []
        return Seen(
            f"{picture}\nYou (@) are in row {row}, column {column}. Next to you: {beside}. "
            f"The goal is {' and '.join(way) or 'here'}."
        )

    def _around(self) -> list[tuple[str, tuple[int, int]]]:
        return [(word, _MOVES[word]) for word in self.order]

    def expects(self, observation: Any, action: int) -> Any:
        row, column = self.place(observation)
        y, x = _MOVES[self.order[action]]
        row, column = min(max(row + y, 0), self.height - 1), min(max(column + x, 0), self.width - 1)
        return row * self.width + column

    def progression(self, observation: Any) -> float | None:
        row, column = self.place(observation)
        longest = self.height + self.width - 2
        return 1 - (abs(self.goal[0] - row) + abs(self.goal[1] - column)) / max(longest, 1)


class FrozenLake(_Grid):
    order = ("left", "down", "right", "up")

    def __init__(self, env: Any) -> None:
        rows = ["".join(cell.decode() for cell in row) for row in env.unwrapped.desc]
        goal = next((y, line.index("G")) for y, line in enumerate(rows) if "G" in line)
        super().__init__(rows, goal)
        kwargs = env.spec.kwargs if env.spec is not None else {}
        slips = bool(kwargs.get("is_slippery", True))
        self.rules = (
            "You cross a frozen lake from the start S to the goal G. Ice is F. Holes are H: falling into one ends the "
            "game without a reward. Reaching the goal gives the reward 1. "
            + ("The ice is slippery: a move may carry you to one side instead." if slips else "You never slip.")
        )


class CliffWalking(_Grid):
    order = ("up", "right", "down", "left")

    def __init__(self, env: Any) -> None:
        rows = ["." * 12 for _ in range(3)] + ["S" + "H" * 10 + "G"]
        super().__init__(rows, (3, 11))
        self.rules = (
            "You walk from the start S to the goal G. Each move costs 1. The cells H are a cliff: stepping there costs "
            "100 and puts you back to the start."
        )

    def expects(self, observation: Any, action: int) -> Any:
        after = super().expects(observation, action)
        return 36 if self.cell(*self.place(after)) == "hole" else after


class Taxi(PlainDescriber):
    family = "toy text"
    actions = ("south", "north", "east", "west", "pick up", "drop off")
    _STOPS = (("red", 0, 0), ("green", 0, 4), ("yellow", 4, 0), ("blue", 4, 3))
    rules = (
        "You drive a taxi on a grid of 5 rows and 5 columns with walls. Fetch the passenger and bring them to their "
        "destination. Each move costs 1, a wrong pick up or drop off costs 10, the right drop off gives 20. "
        "The stops are red (row 0, column 0), green (row 0, column 4), yellow (row 4, column 0) and blue (row 4, "
        "column 3)."
    )

    def __init__(self, env: Any) -> None:
        self._map = [bytes(row).decode() for row in env.unwrapped.desc.reshape(env.unwrapped.desc.shape[0], -1)]
        self._steps = env.unwrapped.P

    @staticmethod
    def parts(observation: Any) -> tuple[int, int, int, int]:
        """Row, column, where the passenger is (4: in the taxi), where to."""
        rest, destination = divmod(int(observation), 4)
        rest, passenger = divmod(rest, 5)
        row, column = divmod(rest, 5)
        return row, column, passenger, destination

    def describe(self, observation: Any) -> Seen:
        row, column, passenger, destination = self.parts(observation)
        drawn = [list(line) for line in self._map]
        drawn[row + 1][2 * column + 1] = "@"
        where = "in your taxi" if passenger == 4 else f"at {self._STOPS[passenger][0]}"
        picture = "\n".join("".join(line) for line in drawn)
        return Seen(
            f"{picture}\nYour taxi (@) is in row {row}, column {column}. The passenger is {where} and wants to go to "
            f"{self._STOPS[destination][0]}. Walls are | in the map."
        )

    def expects(self, observation: Any, action: int) -> Any:
        outcomes = self._steps[int(observation)][action]
        return max(outcomes, key=lambda one: one[0])[1]

    def progression(self, observation: Any) -> float | None:
        return 0.5 if self.parts(observation)[2] == 4 else 0.0


class Blackjack(PlainDescriber):
    family = "toy text"
    actions = ("stick", "hit")
    rules = (
        "You play Blackjack. Come as close to 21 as you can without going beyond; hit takes another card, stick ends "
        "your turn, then the dealer draws up to 17. Winning gives 1, losing -1. An ace counts 11 where that fits."
    )

    def describe(self, observation: Any) -> Seen:
        mine, dealer, ace = (int(np.asarray(one)) for one in observation)
        held = "with a usable ace" if ace else "without a usable ace"
        return Seen(f"Your hand counts {mine}, {held}. The dealer shows {'an ace' if dealer == 1 else dealer}.")
