"""A door: what CORL's scripts call of wandb, without an account, a network or a process of its own.

Rows that a script logs go to who listens at :mod:`mosaic_worker.harness.row_tap`: they are the run's metrics, and a
place where the run may be paused or stopped. Nothing else that is given to it leaves the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mosaic_worker.harness import row_tap


class Config(dict[str, Any]):
    """What a script was given, by names: as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config of this run has no {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *given: Any, allow_val_change: bool = True, **more: Any) -> None:
        super().update(*given, **more)


class Media:
    """A picture, a film or a table: a row that has one is heard without it."""

    def __init__(self, *given: Any, **options: Any) -> None:
        return


class Image(Media):
    pass


class Video(Media):
    pass


class Histogram(Media):
    pass


class Table(Media):
    def add_data(self, *values: Any) -> None:
        return


class Settings(Media):
    pass


class Run:
    """What ``init`` gives; a script may end it as a context or by ``finish``."""

    def __init__(self, name: str, run_id: str, project: str, group: str) -> None:
        self.name, self.id, self.project, self.group = name, run_id, project, group
        self.config, self.summary, self.dir, self.url = config, Config(), ".", None

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        log(data, step, commit)

    def save(self, *given: Any, **options: Any) -> None:
        return

    def finish(self, *given: Any, **options: Any) -> None:
        finish()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *ending: object) -> None:
        finish()


config = Config()
run: Run | None = None


def init(
    project: str | None = None,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    id: str | None = None,
    group: str | None = None,
    **options: Any,
) -> Run:
    """Begin; whatever mode or account is asked for, rows stay with the run that this process is."""
    global run
    _config().clear()
    _config().update(dict(config or {}))
    run = Run(name or "", id or "", project or "", group or "")
    return run


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
    row_tap.listener.row({name: value for name, value in data.items() if not isinstance(value, Media)}, step)


def finish(*given: Any, **options: Any) -> None:
    global run
    run = None


def save(*given: Any, **options: Any) -> None:
    return


def login(*given: Any, **options: Any) -> bool:
    return True


def watch(*given: Any, **options: Any) -> None:
    return


def define_metric(*given: Any, **options: Any) -> None:
    return


def mark_preempting() -> None:
    return


def _config() -> Config:
    """``init`` has a parameter of that name."""
    return config


def __getattr__(name: str) -> Any:
    raise AttributeError(f"the door to wandb has no {name!r}")
