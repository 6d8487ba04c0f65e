"""What a CORL run is to do: :mod:`mosaic_worker.script_worker.config` with a dataset, and a checkout of CORL's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mosaic_worker.script_worker.config import ConfigError, ScriptConfig

__all__ = ["PACKAGE", "ConfigError", "WorkerConfig"]

PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class WorkerConfig(ScriptConfig):
    """One run as the worker understands it."""

    PACKAGE: ClassVar[Path] = PACKAGE
    OWN_SETTINGS: ClassVar[tuple[str, ...]] = ("dataset", *ScriptConfig.OWN_SETTINGS)

    SOURCES: ClassVar[tuple[str, ...]] = ("mosaic", "corl")

    dataset: str = ""
    """The dataset to learn from. A run that is resumed has the one of its checkpoint."""
    corl_path: str = ""
    """The folder of a CORL checkout, for CORL's own scripts."""

    @property
    def is_upstream(self) -> bool:
        return super().is_upstream or bool(self.corl_path)
