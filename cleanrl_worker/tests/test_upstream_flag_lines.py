"""Lines of flags that CleanRL's users know, in our scripts of the same names: both as `python script.py LINE` and as
`mosaic train SCRIPT LINE`."""

from __future__ import annotations

import importlib
import shlex
from typing import Any

import pytest

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.flag_words import split_flags
from mosaic_worker.training.arguments import parse

QDAGGER = "qdagger_dqn_atari_impalacnn"
LINES: list[tuple[str, str, dict[str, Any]]] = [
    ("ppo", "--no_cuda --track --capture_video --env-id Acrobot-v1 --seed 3", {"cuda": False, "track": True}),
    ("ppo", "--cuda False --torch-deterministic True --seed 2", {"cuda": False, "torch_deterministic": True}),
    ("ppo", "--num-envs 1 --num-steps 64 --total-timesteps 256", {"num_envs": 1, "num_steps": 64}),
    ("ppo", "--total-timesteps 100000 --track --wandb-project-name mine --wandb-entity us", {"wandb_entity": "us"}),
    ("ppo_atari", "--env-id BreakoutNoFrameskip-v4 --num-envs 1 --num-steps 64", {"num_envs": 1}),
    ("ppo_atari", "--track --capture_video", {"capture_video": True}),
    ("ppo_continuous_action", "--env-id Hopper-v4 --num-envs 1 --num-steps 64", {"env_id": "Hopper-v4"}),
    ("ppo_continuous_action", "--env-id dm_control/cartpole-balance-v0", {"env_id": "dm_control/cartpole-balance-v0"}),
    ("ppo_continuous_action", "--exp-name long --total-timesteps 8000000 --no_cuda", {"exp_name": "long"}),
    ("dqn", "--learning-starts 200 --total-timesteps 205 --save-model", {"learning_starts": 200, "save_model": True}),
    ("dqn", "--learning_rate 1e-3 --exploration-fraction 0.2 --hf-entity me", {"learning_rate": 1e-3}),
    ("c51", "--no_cuda --track --capture_video", {"track": True, "cuda": False}),
    ("c51", "--n-atoms 51 --v-min -10 --v-max 10 --save-model True", {"v_min": -10.0, "save_model": True}),
    ("sac_continuous_action", "--autotune False --alpha 0.2", {"autotune": False, "alpha": 0.2}),
    ("sac_continuous_action", "--env-id Hopper-v4 --batch-size 128 --total-timesteps 135", {"batch_size": 128}),
    ("td3_continuous_action", "--learning-starts 100 --batch-size 32 --policy-noise=0.1", {"policy_noise": 0.1}),
    ("ppg_procgen", "--num-envs 1 --num-steps 64 --num-minibatches 2 --n-iteration 1", {"n_iteration": 1}),
    ("ppg_procgen", "--env-id starpilot --track", {"env_id": "starpilot"}),
    ("ppo_rnd_envpool", "--num-envs 8 --num-steps 32 --num-iterations-obs-norm-init 1", {"num_envs": 8}),
    (QDAGGER, "--learning-starts 10 --buffer-size 10 --batch-size 4 --teacher-steps 16", {"teacher_steps": 16}),
    (QDAGGER, "--save-model --offline-steps 16 --teacher-eval-episodes 1", {"offline_steps": 16}),
]


@pytest.mark.parametrize(("algo", "line", "wanted"), LINES)
def test_a_line_of_flags_means_the_same_to_our_script(algo: str, line: str, wanted: dict[str, Any]) -> None:
    script = importlib.import_module(f"cleanrl_worker.cleanrl.{algo}")
    found = vars(parse(script.Args, "", shlex.split(line)))
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(("algo", "line", "wanted"), LINES)
def test_a_line_of_flags_means_the_same_to_the_worker(algo: str, line: str, wanted: dict[str, Any]) -> None:
    typed = {name: value for _, name, value in split_flags(shlex.split(line))}
    own = {name: typed.pop(name) for name in ("env_id",) if name in typed}
    plan = ScriptPlan.of(WorkerConfig(algo=algo, **own, params=typed))  # type: ignore[arg-type]
    script = importlib.import_module(f"cleanrl_worker.cleanrl.{algo}")
    found = vars(parse(script.Args, "", list(plan.arguments)))
    assert {name: found[name] for name in wanted} == wanted
