"""Atari games: the screen as characters, and as a picture for models that see."""

from __future__ import annotations

from typing import Any

from llm_worker.describing.describer import PlainDescriber, Seen
from llm_worker.describing.pictures import as_characters, as_picture

_GOALS = {
    "Pong": "You are the right paddle. Get the ball past the left paddle; a point gives 1, a lost one -1.",
    "Breakout": "Break bricks with the ball; the paddle is at the bottom, fire serves.",
    "SpaceInvaders": "Shoot the invaders above you and avoid their shots.",
    "Freeway": "Bring the chicken across the road to the top. Each crossing gives 1.",
}


class Atari(PlainDescriber):
    family = "atari"

    def __init__(self, env: Any) -> None:
        name = str(env.spec.id if env.spec is not None else "").rpartition("/")[2].partition("-")[0]
        self.actions = tuple(one.lower() for one in _spaced(env.unwrapped.get_action_meanings()))
        self.idle = self.actions.index("noop") if "noop" in self.actions else 0
        about = _GOALS.get(name, "Score as many points as you can.")
        self.rules = f"You play the Atari game {name}. {about} noop does nothing. You see the screen."

    def describe(self, observation: Any) -> Seen:
        picture = as_picture(observation)
        if picture is None:
            return Seen(f"The memory of the game: {' '.join(str(int(one)) for one in observation)}")
        return Seen(f"The screen, bright parts as denser characters:\n{as_characters(picture)}", picture)


def _spaced(meanings: list[str]) -> list[str]:
    """UPRIGHTFIRE becomes up right fire."""
    found = []
    for meaning in meanings:
        spaced = meaning
        for word in ("UP", "DOWN", "LEFT", "RIGHT", "FIRE"):
            spaced = spaced.replace(word, f" {word} ")
        found.append(" ".join(spaced.split()))
    return found
