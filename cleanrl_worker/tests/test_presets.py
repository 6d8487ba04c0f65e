"""Every preset that ships: its form, its claim, and that the script takes its settings."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.worker_manifest import ManifestError, load_manifest
from mosaic_protocol.worker_presets import FOLDER, load_preset, presets_of

WORKER = Path(__file__).parents[1]
MANIFEST = load_manifest(WORKER)
FILES = sorted((WORKER / FOLDER).glob("*.toml"))
KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}


def fields_of(script: Path) -> dict[str, str]:
    """The names and types of a script's settings, without importing it and PyTorch with it."""
    args = next(one for one in ast.parse(script.read_text()).body if getattr(one, "name", "") == "Args")
    assert isinstance(args, ast.ClassDef)
    return {ast.unparse(one.target): ast.unparse(one.annotation) for one in args.body if isinstance(one, ast.AnnAssign)}


def is_of(value: Any, annotation: str) -> bool:
    kinds = KINDS[annotation.split(" | ", maxsplit=1)[0]]
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def test_some_presets_ship_and_none_is_wrong() -> None:
    found, problems = presets_of(MANIFEST)
    assert problems == [] and len(found) == len(FILES) > 0
    assert len({(one.name, one.algo, one.env_id) for one in found}) == len(found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_script_takes_the_settings_of_a_preset(file: Path) -> None:
    preset = load_preset(file, MANIFEST)
    assert file.stem == f"{preset.algo}-{preset.env_id}"
    known = fields_of(WORKER / str(MANIFEST.algorithms[preset.algo].script))
    assert {name: value for name, value in preset.settings.items() if not is_of(value, known.get(name, "str"))} == {}
    assert preset.settings.keys() <= known.keys() - {"seed", "env_id", "total_timesteps"}
    assert preset.settings.keys() == preset.evidence.space.keys()


def refusal(folder: Path, old: str, new: str) -> str:
    text = (WORKER / FOLDER / "ppo-CartPole-v1.toml").read_text()
    assert old in text
    file = folder / "changed.toml"
    file.write_text(text.replace(old, new))
    with pytest.raises(ManifestError) as refused:
        load_preset(file, MANIFEST)
    return str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("total_timesteps =", "total_timestep =", "did you mean 'total_timesteps'?"),
        ("total_timesteps = 50_000", 'total_timesteps = "50k"', "total_timesteps: must be a whole number"),
        ('algo = "ppo"', 'algo = "ppoo"', "did you mean 'ppo'?"),
        ("low = 379.24", "low = 211.0", "shows no gain"),
        ("low = 379.24", "low = 399.0", "must be an interval"),
        ('date = "2026-11-18"', 'date = "yesterday"', "must be a date"),
        ("[settings]", "[settings", "is not TOML"),
    ],
)
def test_a_wrong_preset_is_refused_in_a_sentence_with_its_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    sentence = refusal(tmp_path, old, new)
    assert said in sentence and "changed.toml" in sentence
