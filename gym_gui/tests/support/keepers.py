"""The processes that keep TensorBoard servers, found by their folders."""

from __future__ import annotations

from pathlib import Path


def keepers_below(folder: Path) -> list[int]:
    """Those whose folder lies in this one."""
    return [
        pid
        for pid, words in _commands()
        if len(words) > 2 and words[-2].endswith("keeper.py") and _in(words[-1], folder)
    ]


def servers_below(folder: Path) -> list[int]:
    """The TensorBoard servers whose runs are linked below this folder."""
    return [
        pid for pid, words in _commands() if "tensorboard.main" in words and any(_in(word, folder) for word in words)
    ]


def _in(word: str, folder: Path) -> bool:
    return Path(word).is_relative_to(folder)


def _commands() -> list[tuple[int, list[str]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((int(entry.name), (entry / "cmdline").read_bytes().decode().split("\0")[:-1]))
            except OSError:
                continue
    return found
