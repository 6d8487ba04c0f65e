"""Which script a CleanRL run trains with, as its form asks for it. No Qt here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

UPSTREAM_BUNDLE, JAX_BUNDLE = "cleanrl_upstream", "cleanrl_upstream_jax"
"""Upstream's scripts need libraries that are years older than those of any worker."""


@dataclass(frozen=True)
class ScriptSettings:
    """Which script trains: an algorithm of the worker's, upstream CleanRL's of that name, or a file of the user's."""

    algo: str = ""
    upstream: bool = False
    cleanrl_path: str = ""
    script: str = ""
    bundle: str = ""

    @property
    def is_upstream(self) -> bool:
        return not self.script and bool(self.upstream or self.cleanrl_path)

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.script).stem if self.script else self.algo

    @property
    def environment(self) -> str | None:
        """The bundle that the script runs in; None for the worker's own."""
        implied = JAX_BUNDLE if "_jax" in self.algo else UPSTREAM_BUNDLE
        return self.bundle or (implied if self.is_upstream else None)

    def settings(self) -> dict[str, Any]:
        """Its part of the worker's config. Paths are taken as they are."""
        if self.script:
            return {"script": str(Path(self.script).expanduser())}
        found: dict[str, Any] = {"algo": self.algo}
        if self.cleanrl_path:
            found["cleanrl_path"] = str(Path(self.cleanrl_path).expanduser())
        return {**found, "source": "cleanrl"} if self.is_upstream else found

    def words(self) -> list[str]:
        """The same as words of ``mosaic train``."""
        if self.script:
            words = ["--script", self.script]
        else:
            words = [self.algo, *(["--upstream"] if self.upstream else [])]
            words += ["--cleanrl-path", self.cleanrl_path] if self.cleanrl_path else []
        return [*words, "--bundle", self.bundle] if self.bundle else words
