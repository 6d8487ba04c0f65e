"""The daemon's check of a submitted run config: the shared rules, which workers are installed here, and what the
manifest of the one that is named says of its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mosaic_protocol.run_config import RunConfig, RunConfigError, parse_run_config
from mosaic_protocol.suggest import Problem, did_you_mean, shown
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_protocol.worker_settings import accepted


def validate_train_run_config(
    payload: str | bytes | Mapping[str, Any], *, known_workers: Mapping[str, WorkerManifest] | None = None
) -> RunConfig:
    """Return the config, its worker's settings in the contract's words, or raise :class:`RunConfigError`. Without
    ``known_workers`` any worker will do, and its settings stay as they are."""
    config = parse_run_config(payload)
    if known_workers is None:
        return config
    if problems := list(_worker_problems(config, known_workers)):
        raise RunConfigError(problems)
    return accepted(config, known_workers[config.worker.type])


def _worker_problems(config: RunConfig, known_workers: Mapping[str, WorkerManifest]) -> Iterator[Problem]:
    worker = config.worker
    manifest = known_workers.get(worker.type)
    if manifest is None:
        message = f"is not an installed worker{did_you_mean(worker.type, known_workers)}"
        yield Problem("metadata.worker.type", message, shown(worker.type))
    elif worker.module != manifest.module:
        message = f"must be {manifest.module!r}, which is how the worker {worker.type!r} is started"
        yield Problem("metadata.worker.module", message, shown(worker.module))
