"""Starting modules of the kit in another Python environment, which must see the shared packages and nothing else here.

What the worker runs in (numpy 2, a new gymnasium) must not leak into an environment that was built with older
versions, so its module search path is not handed on. The packages that workers share
(:mod:`mosaic_protocol.worker_packages`) are found through a finder of their own instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mosaic_protocol.worker_packages import shared_folders

_NOT_HANDED_ON = frozenset({"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"})

# Its arguments: the module, the folders of the packages as name=folder, "--", the module's own.
_BOOTSTRAP = """
import sys
from importlib.machinery import PathFinder
module, *words = sys.argv[1:]
end = words.index("--")
places = dict(word.split("=", 1) for word in words[:end])
class Ours:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [places[name]]) if name in places else None
sys.meta_path.append(Ours)
sys.argv = [module, *words[end + 1:]]
__import__(module)
sys.modules[module].main()
"""


def module_command(module: str, python: Path | None) -> list[str]:
    """The command that runs ``main`` of one of MOSAIC's modules, with this interpreter or another one."""
    if python is None:
        return [sys.executable, "-m", module]
    places = [f"{name}={folder}" for name, folder in shared_folders().items()]
    return [str(python), "-P", "-c", _BOOTSTRAP, module, *places, "--"]


def apart(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for a process of another Python: without what would bring modules of this one into it."""
    here = os.path.dirname(sys.executable)  # noqa: PTH120 - compared with entries of PATH as they are
    path = [one for one in environment.get("PATH", "").split(os.pathsep) if one != here]
    kept = {name: value for name, value in environment.items() if name not in _NOT_HANDED_ON}
    return {**kept, "PATH": os.pathsep.join(path)}
