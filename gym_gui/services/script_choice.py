"""Which script trains: an algorithm of a worker's, or what its manifest lets one choose instead. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import Choice, WorkerManifest

Given = Mapping[str, str | bool]
"""What was chosen, by the names of the manifest's choices."""


def option_of(name: str, choice: Choice) -> str:
    """The option of ``mosaic train`` that makes a choice."""
    return choice.option or "--" + name.replace("_", "-")


@dataclass(frozen=True)
class ChosenScript:
    """An algorithm and the choices that were made for it, all of one worker's."""

    manifest: WorkerManifest
    algo: str = ""
    given: Given = field(default_factory=dict)

    @property
    def made(self) -> dict[str, Choice]:
        """The choices that were made."""
        return {name: choice for name, choice in self.manifest.choices.items() if self.given.get(name)}

    @property
    def is_foreign(self) -> bool:
        """Whether what trains is not the worker's own."""
        return any(choice.is_foreign for choice in self.made.values())

    @property
    def replacement(self) -> str:
        """The name of the choice that stands in for the algorithm, "" for none."""
        return next((name for name, choice in self.made.items() if choice.replaces_algorithm), "")

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(str(self.given[self.replacement])).stem if self.replacement else self.algo

    @property
    def bundle(self) -> str | None:
        """The bundle that the script runs in: the chosen one, else what its source needs; None for the worker's own."""
        chosen = [str(self.given[name]) for name, choice in self.made.items() if choice.kind == "bundle"]
        implied = (choice.bundle_for(self.algo) for choice in self.made.values())
        return next(iter([*chosen, *filter(None, implied)]), None)

    def settings(self) -> dict[str, Any]:
        """Its part of the worker's settings. Paths are taken as they are."""
        found: dict[str, Any] = {} if self.replacement else {"algo": self.algo}
        for name, choice in self.made.items():
            if choice.kind in ("file", "folder"):
                found[name] = str(Path(str(self.given[name])).expanduser())
            elif choice.kind == "text":
                found[name] = str(self.given[name])
            found |= choice.sets
        return found

    def words(self) -> list[str]:
        """The same as words of ``mosaic train``."""
        words = [] if self.replacement else [self.algo]
        for name, choice in self.made.items():
            words += [option_of(name, choice), *([] if choice.kind == "switch" else [str(self.given[name])])]
        return words
