"""A data root with datasets for all tests here, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from corl_worker.tests.worlds import play_set
from mosaic_protocol.paths import MosaicPaths


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("corl_home")
    paths = MosaicPaths(root)
    play_set(paths, "swings", "Pendulum-v1")
    play_set(paths, "other-swings", "Pendulum-v1", episodes=2)
    play_set(paths, "balance", "CartPole-v1", episodes=4)
    return root


@pytest.fixture(autouse=True)
def home(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test finds these datasets by name."""
    monkeypatch.setenv("MOSAIC_HOME", str(data_root))
    return data_root
