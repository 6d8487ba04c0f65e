"""Something done to a module right after its import, in a process whose script imports it when it likes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterImport:
    """An import finder that finds nothing itself, and has something done to a module right after its import."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self._actions = actions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        action = self._actions.pop(name, None)  # popped: the search below comes here again
        spec = importlib.util.find_spec(name) if action is not None else None
        if action is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
