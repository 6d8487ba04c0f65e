"""Two workers know ``--upstream``: which one is meant follows from the algorithm, or from where its scripts are."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_gui.cli.errors import CliError
from gym_gui.cli.script_choice import ScriptChoice
from mosaic_protocol.worker_manifest import Discovery, load_manifest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def found() -> Discovery:
    manifests = [load_manifest(ROOT / name) for name in ("cleanrl_worker", "corl_worker")]
    return Discovery({one.type: one for one in manifests}, [])


def worker_of(found: Discovery, algo: str, worker: str | None = None) -> str:
    return ScriptChoice(algo, worker, {"upstream": True}).chosen(found).manifest.type


def test_the_worker_that_offers_the_algorithm_is_meant(found: Discovery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_CORL_PATH", raising=False)
    assert worker_of(found, "ppo") == "cleanrl"
    assert worker_of(found, "iql") == "corl"
    assert worker_of(found, "rpo_continuous_action") == "cleanrl"  # nobody said where CORL's scripts are


def test_the_environment_says_where_the_scripts_are(
    found: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_CORL_PATH", str(tmp_path))
    settings = ScriptChoice("iql", "corl", {"upstream": True}).chosen(found).settings()
    assert settings == {"algo": "iql", "source": "corl", "corl_path": str(tmp_path)}
    with pytest.raises(CliError, match="choose between --worker cleanrl and --worker corl"):
        worker_of(found, "edac_of_mine")
