"""The recorded steps of one episode as a screen shows them: who acted when, what a step saw, did and brought."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gym_gui.services.replay import names
from mosaic_protocol.dialogue import Exchange, exchange_at
from mosaic_protocol.steps.recorded_episodes import FormError, RecordedEpisode

MOST_NUMBERS = 64
"""Numbers of an observation that are shown one by one."""
_PICTURE_SIDE = 16
"""From so many rows and columns on, bytes are a picture."""


class Stripe(NamedTuple):
    """Consecutive steps of one actor: from ``first`` to before ``end``."""

    actor: str
    first: int
    end: int


def stripes(actors: Sequence[str]) -> list[Stripe]:
    found, place = [], 0
    for actor, group in groupby(actors):
        count = sum(1 for _ in group)
        found.append(Stripe(actor, place, place + count))
        place += count
    return found


@dataclass(frozen=True)
class Reading:
    """One number of an observation, beside what it was in the whole episode."""

    name: str
    value: float
    before: float | None
    """At the step before."""
    low: float
    high: float
    is_yes_or_no: bool = False


@dataclass(frozen=True)
class Choice:
    """One of the actions that could be chosen, with what the policy thought of it."""

    name: str
    share: float
    """Of the widest bar, from 0 to 1."""
    text: str
    is_taken: bool


@dataclass(frozen=True)
class StepFacts:
    """Everything that is known of one step."""

    place: int
    number: int
    actor: str
    readings: list[Reading]
    form: str
    """What the observation is where it is no few numbers: "uint8 210 × 160 × 3"."""
    action: str
    action_detail: str
    choices: list[Choice]
    advised: str
    """What the policy that watched would have done, where that was something else."""
    reward: float
    total: float
    """The return with this step."""
    value: float | None
    to_go: float
    """The rewards from this step on."""
    terminated: bool
    truncated: bool
    extras: dict[str, Any]


class EpisodeRecord:
    """An episode with what a screen asks again and again. Belongs to one thread."""

    def __init__(self, episode: RecordedEpisode, env_id: str) -> None:
        self.episode, self.env_id = episode, env_id
        self.action_names: tuple[str, ...] = ()
        """As the environment calls its actions, once it told."""
        self.rewards: NDArray[np.float64] = episode.rewards
        self.returns: NDArray[np.float64] = np.cumsum(self.rewards)
        self.stripes = stripes(episode.actors)
        self._values = episode.values
        self._columns = self._numbers()

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def total(self) -> float:
        return float(self.returns[-1]) if len(self) else 0.0

    @property
    def hand_overs(self) -> list[int]:
        """The steps at which somebody else took the seat."""
        return [stripe.first for stripe in self.stripes[1:]]

    def next_hand_over(self, place: int) -> int:
        """The hand-over after a place, else the end."""
        return next((one for one in self.hand_overs if one > place), len(self))

    def previous_hand_over(self, place: int) -> int:
        """The hand-over before a place, else the beginning."""
        return next((one for one in reversed(self.hand_overs) if one < place), 0)

    def step(self, place: int) -> StepFacts:
        """Raises IndexError."""
        episode = self.episode
        if not 0 <= place < len(self):
            raise IndexError(f"episode {episode.number} has {len(self)} steps")
        readings, form = self._seen(place)
        action, detail = self._action(place)
        value = None if self._values is None else float(self._values[place])
        total = float(self.returns[place])
        extras = dict(episode.extras.get(place, {}))
        advised = extras.pop("advised", None)
        return StepFacts(
            place=place,
            number=int(episode.numbers[place]),
            actor=episode.actors[place],
            readings=readings,
            form=form,
            action=action,
            action_detail=detail,
            choices=self._choices(place, extras),
            advised=self._in_words(advised)[0] if advised is not None else "",
            reward=float(self.rewards[place]),
            total=total,
            value=value if value is not None and math.isfinite(value) else None,
            to_go=self.total - total + float(self.rewards[place]),
            terminated=bool(episode.terminated[place]),
            truncated=bool(episode.truncated[place]),
            extras=extras,
        )

    def dialogue(self, place: int) -> Exchange | None:
        """What a language model was asked and answered at a step; None where none was, or it cannot be read."""
        return exchange_at(place, self.episode.extras)

    def picture(self, place: int) -> NDArray[np.uint8] | None:
        """The observation itself, where it is a picture."""
        if not 0 <= place < len(self):
            return None
        for value in self.episode.observation(place).values():
            if is_picture(value):
                return in_colour(value)
        return None

    # ---- observations --------------------------------------------------------------------------------------------

    def _numbers(self) -> dict[str, NDArray[np.float64]]:
        """Each number of the observations over the whole episode, by its name, where there are not too many."""
        try:
            stacked = self.episode.stacked("observation")
        except FormError:
            return {}
        found: dict[str, NDArray[np.float64]] = {}
        for path, values in stacked.items():
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
                continue
            flat = values.reshape(len(values), -1)
            if flat.shape[1] > MOST_NUMBERS:
                continue
            called = names.observation_names(self.env_id, path, flat.shape[1])
            for number, name in enumerate(called):
                found[name] = flat[:, number].astype(np.float64)
        return found

    def _seen(self, place: int) -> tuple[list[Reading], str]:
        readings = []
        for name, column in self._columns.items():
            finite = column[np.isfinite(column)]
            low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
            before = float(column[place - 1]) if place else None
            readings.append(Reading(name, float(column[place]), before, low, high, _is_flag(name, finite)))
        if readings:
            return readings, ""
        forms = [_form(value) for value in self.episode.observation(place).values()]
        return [], ", ".join(forms)

    # ---- actions -------------------------------------------------------------------------------------------------

    def _action(self, place: int) -> tuple[str, str]:
        action = self.episode.action(place)
        return ("not recorded", "") if action is None else self._in_words(action)

    def _in_words(self, action: Any) -> tuple[str, str]:
        """(in words, in numbers)"""
        if isinstance(action, int | np.integer):
            name = names.action_name(self.env_id, int(action), self.action_names)
            return (name, f"action {int(action)}") if name else (f"action {int(action)}", "")
        if isinstance(action, np.ndarray) and action.ndim == 1 and action.size <= 8:
            parts = names.action_part_names(self.env_id, action.size)
            return "  ".join(f"{name} {number:+.3g}" for name, number in zip(parts, action, strict=True)), ""
        return _brief(action), ""

    def _choices(self, place: int, extras: dict[str, Any]) -> list[Choice]:
        """What the policy thought of each action, where it was recorded: with the extras of the step."""
        for key, kind in (("probabilities", "probability"), ("action_values", "value")):
            told = _numbers_of(extras.get(key))
            if told:
                extras.pop(key)
                called = names.action_names(self.env_id, len(told), self.action_names)
                return choices(told, kind, self._taken(place), called)
        return []

    def _taken(self, place: int) -> int | None:
        action = self.episode.action(place)
        return int(action) if isinstance(action, int | np.integer) else None


def choices(told: Sequence[float], kind: str, taken: int | None, called: Sequence[str]) -> list[Choice]:
    """Bars: probabilities as they are, values from the least to the greatest."""
    low, high = min(told), max(told)
    shares = (
        list(told) if kind == "probability" else [(one - low) / (high - low) if high > low else 1.0 for one in told]
    )
    return [
        Choice(name, min(max(share, 0.0), 1.0), f"{value:.2f}", number == taken)
        for number, (name, share, value) in enumerate(zip(called, shares, told, strict=True))
    ]


def is_picture(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim not in (2, 3):
        return False
    colours = value.ndim == 2 or value.shape[2] in (1, 3)
    return colours and min(value.shape[:2]) >= _PICTURE_SIDE


def in_colour(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Height, width, three colours."""
    grey = picture[:, :, None] if picture.ndim == 2 else picture
    return np.ascontiguousarray(np.repeat(grey, 3, axis=2) if grey.shape[2] == 1 else grey)


def _is_flag(name: str, values: NDArray[np.float64]) -> bool:
    return name.endswith(" down") or (name == "usable ace" and set(np.unique(values)) <= {0.0, 1.0})


def _numbers_of(value: Any) -> list[float]:
    values = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(values, list | tuple) or not 1 < len(values) <= MOST_NUMBERS:
        return []
    numbers = [float(one) for one in values if isinstance(one, int | float) and math.isfinite(one)]
    return numbers if len(numbers) == len(values) else []


def _form(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {' × '.join(map(str, value.shape))}"
    return _brief(value)


def _brief(value: Any) -> str:
    text = " ".join(str(value.tolist() if isinstance(value, np.ndarray) else value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"
