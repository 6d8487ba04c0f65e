"""How far what was learned can be relied on, as one number from 0 to 1.

At the start of each episode the table promises a return: the highest value among the actions of the first state. At its
end it is known what the episode brought, discounted in the same way. The confidence is how well the two agree, as
moving means: ``1 - |promised - brought| / max(|promised|, |brought|)``, not below 0, and 0 while both are about 0 and
nothing was learned yet.

It is low at first because the table promises nothing, low while the agent explores because exploring brings less than
the table rightly promises, low again when the world changes because what it promises does not come. It says nothing
about how good a policy is: one that reliably falls into the same hole can be relied on to do so.
"""

from __future__ import annotations

WINDOW = 50
"""Episodes that the moving means look back over, about."""
_NOTHING = 1e-3


_HUNDREDTHS = tuple(round(number / 100, 2) for number in range(101))


def in_hundredths(value: float) -> float:
    """``round(value, 2)`` of a number from 0 to 1 at a third of its price, which counts once an episode."""
    hundredths = value * 100
    near = int(hundredths + 0.5)
    return _HUNDREDTHS[near] if -0.49 < hundredths - near < 0.49 else round(value, 2)


def agreement(promised: float, brought: float) -> float:
    """How well the two agree, from 0 to 1."""
    # Once an episode, and each call of abs() or max() would cost as much as a line of this.
    larger = promised if promised >= 0.0 else -promised
    other = brought if brought >= 0.0 else -brought
    if other > larger:
        larger = other
    apart = promised - brought if promised > brought else brought - promised
    return 1.0 - apart / larger if larger > _NOTHING and apart < larger else 0.0


class MovingMean:
    """A mean over the newest values, about :data:`WINDOW` of them; of all while they are fewer."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, new: float) -> None:
        if self.count < WINDOW:
            self.count += 1
        self.value += (new - self.value) / self.count


class Confidence:
    """Promised and brought returns of one agent's episodes."""

    def __init__(self) -> None:
        self.promised, self.brought = MovingMean(), MovingMean()

    def note(self, promised: float, brought: float) -> None:
        self.promised.add(promised)
        self.brought.add(brought)

    @property
    def value(self) -> float:
        return agreement(self.promised.value, self.brought.value)

    @property
    def state(self) -> list[float]:
        """For a checkpoint."""
        return [self.promised.value, self.promised.count, self.brought.value, self.brought.count]

    @state.setter
    def state(self, found: list[float]) -> None:
        self.promised.value, self.promised.count = found[0], int(found[1])
        self.brought.value, self.brought.count = found[2], int(found[3])
