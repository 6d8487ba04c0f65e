from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pydantic
import pytest

from mosaic_protocol import run_config, worker_manifest, worker_settings, worker_tables
from mosaic_protocol.datasets import DatasetManifest, References

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"


def keys_of(model: type[pydantic.BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted name of every field of a model and of the models in it."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key
        for inner, infix in models_in(field.annotation):
            yield from keys_of(inner, f"{key}.{infix}")


def models_in(annotation: Any) -> Iterator[tuple[type[pydantic.BaseModel], str]]:
    infix = "NAME." if get_origin(annotation) is dict else ""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel):
            yield candidate, infix


RUN_CONFIG_KEYS = list(keys_of(run_config.RunConfig))
SETTINGS_KEYS = list(keys_of(worker_settings.WorkerSettings))
MANIFEST_KEYS = list(keys_of(worker_tables.ManifestFile))


def test_the_keys_are_found_at_every_depth() -> None:
    assert {"run_name", "resources.gpus.mandatory", "metadata.worker.config"} <= set(RUN_CONFIG_KEYS)
    assert {"schema", "warm.module", "algorithms.NAME.script"} <= set(MANIFEST_KEYS)


@pytest.mark.parametrize("key", RUN_CONFIG_KEYS)
def test_every_field_of_the_run_config_is_documented(key: str) -> None:
    assert f"`{key}`" in (PAGES / "run-config.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", SETTINGS_KEYS)
def test_every_setting_of_a_worker_is_documented(key: str) -> None:
    page = (PAGES / "run-config.md").read_text(encoding="utf-8")
    assert f"| `{key}` |" in page.partition("## The worker's settings")[2].partition("\n## ")[0]


@pytest.mark.parametrize("key", MANIFEST_KEYS)
def test_every_key_of_the_manifest_is_documented(key: str) -> None:
    assert f"`{key}`" in (PAGES / "worker-manifest.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", [*DatasetManifest.__struct_fields__, *References.__struct_fields__])
def test_every_key_of_a_datasets_manifest_is_documented(key: str) -> None:
    assert f"`{key}`" in (PAGES / "datasets.md").read_text(encoding="utf-8")


def test_the_example_config_of_the_page_is_valid() -> None:
    page = (PAGES / "run-config.md").read_text(encoding="utf-8")
    example = page.split("```json\n")[1].split("```")[0]
    assert run_config.parse_run_config(example).algo == "ppo"


def test_the_example_manifest_of_the_page_is_valid(tmp_path: Path) -> None:
    page = (PAGES / "worker-manifest.md").read_text(encoding="utf-8")
    package_dir = tmp_path / "my_worker"
    (package_dir / "scripts").mkdir(parents=True)
    (package_dir / "scripts" / "ppo.py").touch()
    (package_dir / "worker.toml").write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    assert worker_manifest.load_manifest(package_dir).package == "my_worker"


def test_the_limits_of_the_page_are_the_limits_of_the_code() -> None:
    page = (PAGES / "run-config.md").read_text(encoding="utf-8").replace(" ", "").replace("\n", "")
    for limit in (
        run_config.MAX_CPUS,
        run_config.MAX_GPUS,
        run_config.MAX_MEMORY_MB,
        run_config.MAX_MINUTES,
        run_config.MAX_NOTES,
    ):
        assert str(limit) in page
