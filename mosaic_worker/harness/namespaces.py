"""The variables that a loop sees, of a module or of a function that is being executed, to look at and to put back."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, MutableMapping
from types import FrameType
from typing import Any

Namespace = MutableMapping[str, Any]


def variables_of(frame: FrameType, module: Namespace) -> Namespace:
    """What the code of a frame sees. The module's own variables are the mapping itself."""
    return module if frame.f_locals is module else FunctionVariables(frame, module)


class FunctionVariables(MutableMapping[str, Any]):
    """The variables of a function over those of its module, as they were when this was made. One that is set is set in
    the function itself, at once."""

    def __init__(self, frame: FrameType, module: Namespace) -> None:
        self._frame, self._module = frame, module
        self._own = frozenset((*frame.f_code.co_varnames, *frame.f_code.co_cellvars))
        self._seen: dict[str, Any] = {**module, **frame.f_locals}

    def __getitem__(self, name: str) -> Any:
        return self._seen[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._seen[name] = value
        if name in self._own:
            _set_local(self._frame, name, value)
        else:
            self._module[name] = value

    def __delitem__(self, name: str) -> None:
        raise TypeError("a variable of a function cannot be taken away from it")

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)


def _set_local(frame: FrameType, name: str, value: Any) -> None:
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):  # there it was a copy, which the interpreter must be asked to take over
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
