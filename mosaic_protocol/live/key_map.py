"""Which keys mean which action. Pure data, shown by screens and editable: the session alone turns keys into actions.

Keys have the names of :data:`NAMED_KEYS`, or are one character in lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

NAMED_KEYS = frozenset({"up", "down", "left", "right", "space", "enter", "tab", "escape", "backspace"})


class KeyMapError(ValueError):
    """Keys that cannot be used; the text is one sentence."""


class Binding(msgspec.Struct, frozen=True):
    """These keys together mean this action."""

    keys: tuple[str, ...]
    action: Any
    """As the environment takes it; in a map that adds, what each key contributes."""
    label: str = ""


class KeyMap(msgspec.Struct, frozen=True):
    """The keys of one environment."""

    bindings: tuple[Binding, ...] = ()
    adds: bool = False
    """Whether actions of keys that are held together are added (continuous actions). Otherwise the binding with the
    most keys wins, and of several the one pressed last."""
    idle: Any = None
    """The action while no key is held; None repeats the last one."""
    idle_label: str = ""

    def action_for(self, held: Sequence[str]) -> Any:
        """The action of the keys that are held, the last one pressed at the end; None when they mean nothing."""
        down = {key: place for place, key in enumerate(held)}
        meant = [one for one in self.bindings if one.keys and all(key in down for key in one.keys)]
        if not meant:
            return None
        if self.adds:
            return _sum([one.action for one in meant], self.idle)
        return max(meant, key=lambda one: (len(one.keys), max(down[key] for key in one.keys))).action

    def label_of(self, action: Any) -> str:
        """An action in words; empty for one without."""
        if self.adds:
            return ""
        known = next((one.label for one in self.bindings if one.label and one.action == action), "")
        return known or (self.idle_label if action == self.idle else "")

    def changed(self, keys: Mapping[str, Any]) -> KeyMap:
        """With other keys for some actions: ``{"a": 0, "left+space": 3}``; None unbinds a key. Raises
        :class:`KeyMapError`."""
        bindings = list(self.bindings)
        for spelt, action in keys.items():
            combination = tuple(checked_key(key) for key in spelt.split("+"))
            label = self.label_of(action)
            bindings = [one for one in bindings if set(one.keys) != set(combination)]
            if action is not None:
                bindings.append(Binding(combination, action, label))
        return msgspec.structs.replace(self, bindings=tuple(bindings))


def checked_key(key: str) -> str:
    name = key.strip().lower()
    if name in NAMED_KEYS or len(name) == 1:
        return name
    raise KeyMapError(f"there is no key {key!r}: a key is one character or one of {', '.join(sorted(NAMED_KEYS))}")


def _sum(parts: Iterable[Sequence[float]], idle: Any) -> list[float]:
    """Idle values hold where no key contributes: a key replaces them rather than fights them."""
    rows = [list(part) for part in parts]
    touched = [any(row[at] for row in rows) for at in range(len(rows[0]))]
    base = idle if idle is not None else [0.0] * len(rows[0])
    return [sum(row[at] for row in rows) if touched[at] else base[at] for at in range(len(rows[0]))]
