"""What a script finds around it: its module search path, and what older scripts need that newer Pythons lack."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from mosaic_worker.harness.after_import import AfterImport
from mosaic_worker.harness.source import ScriptSource

BESIDE = "beside"
"""``<environment>/beside/<package>``: put ahead on the path of scripts that import ``<package>``."""
_TRUE, _FALSE = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def prepare(source: ScriptSource, search: Iterable[str], arguments: Iterable[str], doors: str | None = None) -> None:
    """Set up this process for one script; `search` are further folders for its imports, `doors` is one ahead of all."""
    beside = Path(sys.prefix) / BESIDE
    ahead = [str(folder) for folder in sorted(beside.glob("*")) if folder.name in source.imports]
    sys.path[:0] = [*filter(None, [doors]), str(source.path.parent), *ahead, *search]
    if "distutils" in source.imports and importlib.util.find_spec("distutils") is None:
        _provide_distutils()
    if "jax" in source.imports:
        sys.meta_path.insert(0, AfterImport({"jax": provide_tree_map}))
    if "supersuit" in source.imports or "pettingzoo" in source.imports:
        sys.meta_path.insert(0, AfterImport({"multi_agent_ale_py": lend_roms}))
    if any(_is_atari(word) for word in (source.path.stem, *arguments)):
        register_atari(source.imports)


def register_atari(libraries: Container[str]) -> None:
    """Make Atari games known to gymnasium, and to the old gym where that is what a script uses."""
    with suppress(ImportError):
        importlib.import_module("ale_py")  # registers its environments when it is imported
        if "gym" in libraries:
            importlib.import_module("mosaic_worker.harness.old_gym_atari").register()


def _is_atari(word: str) -> bool:
    return "atari" in word.lower() or word.startswith("ALE/") or "NoFrameskip" in word


def lend_roms(two_players: Any) -> None:
    """PettingZoo looks for ROMs beside this library, which comes without any; those beside ``ale_py`` fit."""
    spec = importlib.util.find_spec("ale_py")
    if spec is not None and spec.origin and not (Path(two_players.__file__).parent / "roms").exists():
        two_players.__file__ = spec.origin


def provide_tree_map(jax: Any) -> None:
    """JAX moved it; scripts of some years ago call it where it was. In the JAX of their time it still is there."""
    if not hasattr(jax, "tree_map"):
        jax.tree_map = jax.tree.map


def _provide_distutils() -> None:
    package, module = ModuleType("distutils"), ModuleType("distutils.util")
    module.strtobool = strtobool  # type: ignore[attr-defined]
    package.util = module  # type: ignore[attr-defined]
    sys.modules.update({"distutils": package, "distutils.util": module})


def strtobool(text: str) -> int:
    """1 or 0 for a word that says so, ValueError for any other: what went from Python with distutils."""
    word = text.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text!r} is neither true nor false")
    return int(word in _TRUE)
