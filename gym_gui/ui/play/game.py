"""What an environment is played with, as its worker describes it. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gym_gui.ui.forms.field_spec import FieldSpec, from_schema
from mosaic_protocol.live.key_map import KeyMap, KeyMapError

FAMILIES = {
    "toy_text": "Toy text",
    "classic_control": "Classic control",
    "box2d": "Box2D",
    "mujoco": "MuJoCo",
    "atari": "Atari",
    "minigrid": "MiniGrid",
}
"""The families of environments as the worker names them, and as people do."""
SESSION_SETTINGS = ("turns", "speed", "episodes", "env_kwargs")
"""Parameters of the play worker that belong to the session, not to the game."""


@dataclass(frozen=True)
class Game:
    """One environment: its settings with their defaults, and its keys."""

    env_id: str = ""
    family: str = ""
    waits: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    key_map: KeyMap = field(default_factory=KeyMap)

    @classmethod
    def from_worker(cls, told: Mapping[str, Any]) -> Game:
        """Raises ValueError for what is no description."""
        try:
            key_map = msgspec.convert(told["key_map"], KeyMap)
            return cls(str(told["env_id"]), str(told["family"]), bool(told["waits"]), dict(told["settings"]), key_map)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise ValueError("the worker describes this environment in a way that is not understood") from error

    def fields(self, schema: Mapping[str, Any]) -> list[FieldSpec]:
        """A field for each setting that this game has, with the game's own default."""
        known = {spec.name: spec for spec in from_schema(schema)}
        return [_with_default(known[name], value) for name, value in self.settings.items() if name in known]

    def with_keys(self, changes: Mapping[str, Any]) -> KeyMap:
        """Its keys with a person's changes; changes that cannot be used are left out."""
        try:
            return self.key_map.changed(changes)
        except KeyMapError:
            return self.key_map


def session_fields(schema: Mapping[str, Any]) -> list[FieldSpec]:
    return [spec for spec in from_schema(schema) if spec.name in SESSION_SETTINGS]


def _with_default(spec: FieldSpec, value: Any) -> FieldSpec:
    if value is None:
        return replace(spec, placeholder="default", optional=True)
    return replace(spec, default=value)
