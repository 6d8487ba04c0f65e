"""``--preset`` and ``mosaic presets``: settings that ship with workers."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gym_gui.cli.errors import CliError
from gym_gui.cli.main import mosaic
from gym_gui.cli.run_plan import TrainRequest, make_plan
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
