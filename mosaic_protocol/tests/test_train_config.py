"""The daemon's check of a config. Loaded by name, because this package must not depend on the daemon's."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.run_config import RunConfigError, parse_run_config
from mosaic_protocol.worker_manifest import WorkerManifest, load_manifest

validation = importlib.import_module("gym_gui.services.trainer.validation.train_config")


@pytest.fixture
def known_workers(tmp_path: Path) -> dict[str, WorkerManifest]:
    package_dir = tmp_path / "cleanrl_worker"
    package_dir.mkdir()
    (package_dir / "worker.toml").write_text(
        'schema = 1\n[worker]\ntype = "cleanrl"\nname = "n"\nversion = "1"\nsummary = "s"\n'
        'lane = "analytics"\nmodule = "cleanrl_worker.cli"\n'
    )
    return {"cleanrl": load_manifest(package_dir)}


def refusal(config: object, known_workers: dict[str, WorkerManifest]) -> str:
    with pytest.raises(RunConfigError) as caught:
        validation.validate_train_run_config(config, known_workers=known_workers)
    return str(caught.value)


def test_a_config_for_an_installed_worker_is_accepted(
    valid_config: dict[str, Any], known_workers: dict[str, WorkerManifest]
) -> None:
    config = validation.validate_train_run_config(valid_config, known_workers=known_workers)
    assert config == parse_run_config(valid_config) == validation.validate_train_run_config(valid_config)


def test_an_unknown_worker_offers_the_nearest_one(
    valid_config: dict[str, Any], known_workers: dict[str, WorkerManifest]
) -> None:
    valid_config["metadata"]["worker"]["type"] = "cleanlr"
    expected = "metadata.worker.type: is not an installed worker; did you mean 'cleanrl'? (got 'cleanlr')"
    assert refusal(valid_config, known_workers) == expected
    assert refusal(valid_config, {}) == "metadata.worker.type: is not an installed worker (got 'cleanlr')"


def test_only_the_module_of_the_manifest_is_started(
    valid_config: dict[str, Any], known_workers: dict[str, WorkerManifest]
) -> None:
    valid_config["metadata"]["worker"]["module"] = "antigravity"
    assert refusal(valid_config, known_workers) == (
        "metadata.worker.module: must be 'cleanrl_worker.cli', which is how the worker 'cleanrl' is started "
        "(got 'antigravity')"
    )


def test_the_shared_rules_apply_too(known_workers: dict[str, WorkerManifest]) -> None:
    assert "artifacts: is required" in refusal("{}", known_workers)
