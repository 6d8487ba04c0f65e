"""What a CleanRL run is to do: :mod:`mosaic_worker.script_worker.config` with a checkout of CleanRL's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mosaic_protocol.worker_settings import WorkerSettings
from mosaic_worker.script_worker.config import ConfigError, ScriptConfig, require

__all__ = ["PACKAGE", "ConfigError", "WorkerConfig"]

PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class WorkerConfig(ScriptConfig):
    """One run as the worker understands it."""

    PACKAGE: ClassVar[Path] = PACKAGE
    SOURCES: ClassVar[tuple[str, ...]] = ("mosaic", "cleanrl")

    cleanrl_path: str = ""
    """The folder of a CleanRL checkout; without one the package in the managed environment is used."""

    @classmethod
    def given(cls, told: WorkerSettings) -> dict[str, Any]:
        require(told.dataset is None, "CleanRL's algorithms learn from an environment: leave the dataset out")
        return super().given(told)

    @property
    def is_upstream(self) -> bool:
        return super().is_upstream or bool(self.cleanrl_path)
