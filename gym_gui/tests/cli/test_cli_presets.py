"""``--preset`` and ``mosaic presets``: settings that ship with workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gym_gui.cli.errors import CliError
from gym_gui.cli.main import mosaic
from gym_gui.cli.run_plan import TrainRequest, make_plan
from gym_gui.services.start_point import placed
from gym_gui.services.sweeps.model import config_of_trial, decode_spec
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import parse_run_config
from mosaic_protocol.worker_manifest import discover
from mosaic_protocol.worker_presets import chosen_preset, presets_of


def asked(**given: object) -> TrainRequest:
    return TrainRequest.of({"algo": "ppo", "env_id": "CartPole-v1", "preset": "tuned", **given})


def test_a_preset_sets_what_was_not_given_and_flags_win() -> None:
    found = discover()
    preset = chosen_preset(presets_of(found.workers["cleanrl"])[0], "tuned", "ppo", "CartPole-v1")
    config = make_plan(asked(), found).worker_config
    assert config["params"] == preset.settings and config["total_timesteps"] == preset.total_timesteps
    own = make_plan(asked(total_timesteps=1000, script_flags=("--num-steps", "16")), found).worker_config
    assert own["params"] == {**preset.settings, "num_steps": 16} and own["total_timesteps"] == 1000


def test_a_run_names_the_preset_whose_settings_it_has_however_they_were_given(tmp_path: Path) -> None:
    found = discover()
    manifest = found.workers["cleanrl"]

    def named(**given: object) -> object:
        plan = make_plan(asked(**given), found)
        submitted = placed(plan.config, manifest, MosaicPaths(tmp_path))
        parse_run_config(json.dumps(submitted))
        return submitted["metadata"].get("preset")

    preset = chosen_preset(presets_of(manifest)[0], "tuned", "ppo", "CartPole-v1")
    typed = [word for name, value in preset.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert named() == named(total_timesteps=1000) == named(preset=None, script_flags=tuple(typed)) == "tuned"
    assert named(script_flags=("--num-steps", "16")) is None and named(preset=None) is None
    changed = make_plan(asked(), found).config
    changed["metadata"]["worker"]["config"]["params"]["num_steps"] = 16
    changed["metadata"]["preset"] = "tuned"  # as a copy of a run has it
    assert "preset" not in placed(changed, manifest, MosaicPaths(tmp_path))["metadata"]


def test_a_sweep_begins_from_a_preset_and_the_space_wins(tmp_path: Path) -> None:
    space = tmp_path / "sweep.toml"
    space.write_text("num_steps = [16, 32]\n")
    words = [
        "sweep",
        "ppo",
        "--env-id",
        "CartPole-v1",
        "--preset",
        "tuned",
        "--space",
        str(space),
        "--dry-run",
        "--json",
    ]
    told = CliRunner().invoke(mosaic, [*words, "--no-preflight"])
    assert told.exit_code == 0, told.output
    spec = decode_spec(json.dumps(json.loads(told.output)["spec"]))
    preset = chosen_preset(presets_of(discover().workers["cleanrl"])[0], "tuned", "ppo", "CartPole-v1")
    trial = config_of_trial(spec, {"num_steps": 16}, 1, name="a", group="b")
    assert trial["metadata"]["worker"]["config"]["params"] == {**preset.settings, "num_steps": 16}
    assert trial["metadata"]["worker"]["config"]["total_timesteps"] == preset.total_timesteps
    assert "preset" not in trial["metadata"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"preset": "tuend"}, "did you mean 'tuned'?"),
        ({"env_id": "CartPole-v2"}, "did you mean 'CartPole-v1'?"),
        ({"algo": "td3_continuous_action", "env_id": "Pendulum-v1"}, "`mosaic presets` lists all"),
        ({"resume": "last"}, "give --preset or --resume, not both"),
        ({"upstream": True}, "--preset is for the worker's own scripts"),
    ],
)
def test_a_preset_that_does_not_fit_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(CliError) as refused:
        make_plan(asked(**given), discover())
    assert said in str(refused.value)


def test_presets_are_listed_with_their_evidence() -> None:
    spoken = CliRunner().invoke(mosaic, ["presets"])
    assert spoken.exit_code == 0 and "train ppo --env-id CartPole-v1 --preset tuned" in spoken.output
    assert "fresh seeds" in spoken.output
    listed = json.loads(CliRunner().invoke(mosaic, ["presets", "--json"]).output)
    assert listed["problems"] == [] and listed["presets"][0]["evidence"]["fresh_seeds"]
