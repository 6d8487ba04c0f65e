"""The rows of the launch matrix: one `mosaic train` each, and why a machine without a GPU cannot run some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["own", "package", "checkout", "corl"]


@dataclass(frozen=True)
class Row:
    """One command. `after` names a row that made what takes the place of ``{made}`` in the words: a model file of
    CleanRL's if it saved one, else its last checkpoint."""

    algo: str
    env_id: str
    steps: int
    words: tuple[str, ...] = ()
    origin: Origin = "own"
    """Whose script: ours, that of the PyPI package cleanrl or of a checkout of it, or CORL's, on the dataset of this
    name in the place of an environment."""
    after: str = ""
    label: str = ""
    keeps: bool = True
    """Whether it is to leave a checkpoint: scripts in JAX leave none, and say so before they start."""
    cannot: str = ""
    """Why it is not run, where no machine with a CPU alone can."""
    from_hub: bool = False
    """It takes what ``after`` made from a cache of Hugging Face's, as upstream's QDagger does."""

    @property
    def name(self) -> str:
        prefix = {"own": "", "package": "upstream ", "checkout": "checkout ", "corl": "CORL "}[self.origin]
        return self.label or prefix + self.algo

    def command(self, made: str = "", checkout: str = "") -> list[str]:
        source = {
            "own": [],
            "package": ["--upstream"],
            "checkout": ["--cleanrl-path", checkout, "--yes"],
            "corl": ["--worker", "corl", "--upstream"],
        }[self.origin]
        words = [word.replace("{made}", made) for word in self.words]
        where = ["--dataset" if self.origin == "corl" else "--env-id", self.env_id]
        return ["train", self.algo, *source, *where, "--total-timesteps", str(self.steps), *words]


_SMALL_ATARI = ("--num-envs", "4", "--num-steps", "64")
_TAUGHT = (
    *("--teacher-policy", "{made}", "--teacher-eval-episodes", "1", "--offline-steps", "500"),
    *("--learning-starts", "500", "--buffer-size", "5000"),
)
_SMALL_REPLAY = ("--learning-starts", "1000", "--buffer-size", "5000")

OWN = (
    Row("ppo", "CartPole-v1", 50_000),
    Row("ppo_jax", "CartPole-v1", 50_000),
    Row("ppo_atari", "PongNoFrameskip-v4", 8_000),
    Row("ppo_continuous_action", "Pendulum-v1", 50_000),
    Row("dqn", "CartPole-v1", 50_000),
    Row("dqn_jax", "CartPole-v1", 50_000),
    Row("c51", "CartPole-v1", 50_000),
    Row("c51_jax", "CartPole-v1", 50_000),
    Row("sac_continuous_action", "Pendulum-v1", 5_000, ("--learning-starts", "1000")),
    Row("sac_jax", "Pendulum-v1", 2_000, ("--learning-starts", "1000")),
    Row("td3_continuous_action", "Pendulum-v1", 5_000, ("--learning-starts", "1000")),
    Row("td3_jax", "Pendulum-v1", 2_000, ("--learning-starts", "1000")),
    Row("ppg_procgen", "starpilot", 8_192, ("--num-envs", "8", "--num-steps", "64", "--n-iteration", "4")),
    Row("ppo_rnd_envpool", "MontezumaRevenge-v5", 4_096, ("--num-envs", "8", "--num-iterations-obs-norm-init", "1")),
    Row("qdagger_dqn_atari_impalacnn", "CartPole-v1", 10_000, (*_TAUGHT, "--teacher-steps", "4000"), after="dqn"),
)

_WITH_VALUES = ("--batch-size", "32", "--buffer-size", "5000")
_RARELY = ("--learning-starts", "200", *_WITH_VALUES)
_GAMES = ("--num-envs", "8", "--num-steps", "32")
_PONG, _PONG_POOL = "PongNoFrameskip-v4", "Pong-v5"
_ISAAC = "needs Isaac Gym, which NVIDIA gives away for CUDA machines alone, and a GPU to simulate on"


def _of_upstream(origin: Origin) -> tuple[Row, ...]:
    """The scripts that the package and a checkout share, at horizons that end after a few updates of each."""
    rows = (
        Row("ppo", "CartPole-v1", 10_240),  # whole rollouts: it does not make the rest
        Row("ppo_continuous_action", "Pendulum-v1", 8_192),
        Row("rpo_continuous_action", "Pendulum-v1", 8_192),
        Row("dqn", "CartPole-v1", 20_000, _SMALL_REPLAY),
        Row("c51", "CartPole-v1", 20_000, _SMALL_REPLAY),
        Row("sac_continuous_action", "Pendulum-v1", 3_000, _SMALL_REPLAY),
        Row("td3_continuous_action", "Pendulum-v1", 3_000, _SMALL_REPLAY),
        Row("ddpg_continuous_action", "Pendulum-v1", 3_000, _SMALL_REPLAY),
        Row("ppo_atari", _PONG, 2_048, _SMALL_ATARI),
        Row("dqn_atari", _PONG, 1_500, (*_SMALL_REPLAY, "--save-model")),
        Row("c51_atari", _PONG, 300, _RARELY),
        Row("sac_atari", _PONG, 300, _RARELY),
        Row("ppo_atari_lstm", _PONG, 512, _SMALL_ATARI),
        Row("ppo_atari_multigpu", _PONG, 512, _SMALL_ATARI),
        Row("ppo_atari_envpool", _PONG_POOL, 512, _GAMES),
        Row("ppo_rnd_envpool", "MontezumaRevenge-v5", 512, (*_GAMES, "--num-iterations-obs-norm-init", "1")),
        Row("ppo_procgen", "starpilot", 1_024, ("--num-envs", "8", "--num-steps", "64")),
        Row("ppg_procgen", "starpilot", 1_024, ("--num-envs", "8", "--num-steps", "64", "--n-iteration", "2")),
        Row("ppo_pettingzoo_ma_atari", "pong_v3", 256, ("--num-envs", "4", "--num-steps", "32")),
        Row("dqn_jax", "CartPole-v1", 2_000, (*_SMALL_REPLAY, "--save-model"), keeps=False),
        Row("c51_jax", "CartPole-v1", 2_000, (*_SMALL_REPLAY, "--save-model"), keeps=False),
        Row("td3_continuous_action_jax", "Pendulum-v1", 3_000, _SMALL_REPLAY, keeps=False),
        Row("ddpg_continuous_action_jax", "Pendulum-v1", 3_000, _SMALL_REPLAY, keeps=False),
        Row("dqn_atari_jax", _PONG, 300, (*_RARELY, "--save-model"), keeps=False),
        Row("c51_atari_jax", _PONG, 300, _RARELY, keeps=False),
        Row("ppo_atari_envpool_xla_jax", _PONG_POOL, 512, ("--num-envs", "8", "--num-steps", "16"), keeps=False),
        Row("ppo_atari_envpool_xla_jax_scan", _PONG_POOL, 512, ("--num-envs", "8", "--num-steps", "16"), keeps=False),
        Row("ppo_continuous_action_isaacgym", "Ant", 512, cannot=_ISAAC),
    )
    return tuple(Row(**{**vars(row), "origin": origin}) for row in rows)


_HUB = ("--teacher-policy-hf-repo", "local/teacher", "--teacher-eval-episodes", "1", "--teacher-steps", "300")
_TAUGHT_THERE = (*_HUB, "--offline-steps", "100", *_RARELY)
UPSTREAM = (
    *_of_upstream("package"),
    *_of_upstream("checkout"),
    Row("pqn", "CartPole-v1", 2_048, origin="checkout"),
    Row("pqn_atari_envpool", _PONG_POOL, 512, _GAMES, origin="checkout"),
    Row("pqn_atari_envpool_lstm", _PONG_POOL, 512, _GAMES, origin="checkout"),
    Row("rainbow_atari", _PONG, 300, _RARELY, origin="checkout"),
    Row(
        "ppo_trxl",
        "ProofofMemory-v0",
        256,
        ("--num-envs", "4", "--num-steps", "32", "--trxl-num-layers", "1", "--trxl-dim", "64"),
        origin="checkout",
    ),
    Row(
        "qdagger_dqn_atari_impalacnn",
        _PONG,
        300,
        _TAUGHT_THERE,
        origin="checkout",
        after="checkout dqn_atari",
        from_hub=True,
    ),
    Row(
        "qdagger_dqn_atari_jax_impalacnn",
        _PONG,
        300,
        _TAUGHT_THERE,
        origin="checkout",
        after="checkout dqn_atari_jax",
        from_hub=True,
        keeps=False,
    ),
)
TAUGHT_BY_UPSTREAM = (
    Row(
        "qdagger_dqn_atari_impalacnn",
        "PongNoFrameskip-v4",
        1_000,
        (*_TAUGHT, "--teacher-steps", "1000"),
        after="upstream dqn_atari",
        label="qdagger_dqn_atari_impalacnn with upstream's teacher",
    ),
)
DATASET = "coverage-pendulum"
_EVERY = ("--eval_freq", "20", "--n_episodes", "1")
_EPOCHS = ("--num_updates_on_epoch", "10", "--eval_every", "2", "--eval_episodes", "1", "--hidden_dim", "64")
_IN_JAX = ("--eval_every", "20", "--eval_episodes", "1", "--bundle", "corl_upstream_jax")
CORL = tuple(
    Row(algo, DATASET, 40, ("--yes", *words), origin="corl", keeps="rebrac" not in algo)
    for algo, words in {
        "any_percent_bc": _EVERY,
        "td3_bc": _EVERY,
        "awac": ("--eval_frequency", "20", "--n_test_episodes", "1"),
        "cql": _EVERY,
        "iql": _EVERY,
        "edac": (*_EPOCHS, "--log_every", "5"),
        "sac_n": (*_EPOCHS, "--log_every", "5"),
        "lb_sac": (*_EPOCHS, "--log_every", "5", "--batch_size", "256"),
        "dt": ("--eval_every", "20", "--eval_episodes", "1", "--target_returns", "[-200.0]", "--embedding_dim", "32"),
        "rebrac": (*_EPOCHS, "--bundle", "corl_upstream_jax"),
        "finetune.awac": ("--eval_frequency", "20", "--n_test_episodes", "1"),
        "finetune.cql": _EVERY,
        "finetune.iql": _EVERY,
        "finetune.spot": (*_EVERY, "--vae_iterations", "10"),
        "finetune.cal_ql": _EVERY,
        "finetune.rebrac": _IN_JAX,
    }.items()
)
ROWS = (*OWN, *UPSTREAM, *TAUGHT_BY_UPSTREAM, *CORL)
