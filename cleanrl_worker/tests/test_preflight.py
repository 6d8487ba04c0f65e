"""An environment is tried before the run starts; whatever is wrong with it becomes one sentence."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from cleanrl_worker import atari, preflight
from cleanrl_worker.config import ConfigError
from cleanrl_worker.preflight import check_action_space, describe_environment


class Noisy(gymnasium.Env[Any, Any]):
    """Prints and warns while it is made, as packages with greetings do."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3])

    def __init__(self) -> None:
        print("Hello from a package!")
        warnings.warn("this environment is old", UserWarning, stacklevel=1)


def broken() -> gymnasium.Env[Any, Any]:
    raise ZeroDivisionError("the physics\nfell apart")


@pytest.fixture
def registered() -> Iterator[Callable[[str, Any], str]]:
    """Register environments that are gone after the test."""
    made: list[str] = []

    def register(env_id: str, entry_point: Any) -> str:
        gymnasium.register(env_id, entry_point=entry_point, disable_env_checker=True)
        made.append(env_id)
        return env_id

    yield register
    for env_id in made:
        del gymnasium.registry[env_id]


def refusal(env_id: str, algo: str = "") -> str:
    with pytest.raises(ConfigError) as refused:
        describe_environment(env_id, algo)
    return str(refused.value)


def hide(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Make packages fail to import, as if they were not installed, also where they were imported before."""
    atari.game_names.cache_clear()
    for name in list(sys.modules):
        if name.partition(".")[0] in modules:
            monkeypatch.delitem(sys.modules, name)
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def test_spaces_are_reported() -> None:
    found = describe_environment("CartPole-v1")
    assert found["action_space"] == "Discrete(2)"
    assert found["action_kind"] == "discrete"
    assert found["observation_space"].startswith("Box(")
    assert describe_environment("Pendulum-v1")["action_kind"] == "continuous"


@pytest.mark.parametrize(
    ("env_id", "nearest"),
    [("CartPole-v9", "CartPole-v1"), ("Cartpole-v1", "CartPole-v1"), ("Taxi-v3", "Taxi-v4")],
)
def test_an_unknown_environment_is_answered_with_the_nearest(env_id: str, nearest: str) -> None:
    assert refusal(env_id) == f"there is no environment {env_id!r}; did you mean {nearest!r}?"


@pytest.mark.parametrize("env_id", ["", "no such env", "../../etc/passwd", "no_such_package:Env-v0", "x" * 5000])
def test_an_impossible_name_is_refused_and_not_a_crash(env_id: str) -> None:
    assert refusal(env_id).startswith("there is no environment ")


def test_an_environment_that_lacks_a_package_says_which(registered: Callable[[str, Any], str]) -> None:
    def lacking() -> gymnasium.Env[Any, Any]:
        raise gymnasium.error.DependencyNotInstalled("pip install box-of-bricks")

    env_id = registered("Lacking-v0", lacking)
    assert refusal(env_id) == "Lacking-v0 needs a package that is not installed: pip install box-of-bricks"


def test_an_environment_that_breaks_while_it_is_made_is_one_sentence(registered: Callable[[str, Any], str]) -> None:
    env_id = registered("Broken-v0", broken)
    assert refusal(env_id) == "Broken-v0 cannot be made here: ZeroDivisionError: the physics fell apart"


def test_what_an_environment_prints_stays_out_of_the_answer(
    registered: Callable[[str, Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = describe_environment(registered("Noisy-v0", Noisy))
    assert found["action_kind"] == "multi_discrete"
    assert capsys.readouterr() == ("", "")


def test_the_environment_is_closed_again(registered: Callable[[str, Any], str]) -> None:
    closed = []

    class Closing(Noisy):
        def close(self) -> None:
            closed.append(True)

    describe_environment(registered("Closing-v0", Closing))
    assert closed == [True]


def test_actions_that_the_algorithm_cannot_choose_are_refused() -> None:
    found = describe_environment("Pendulum-v1")
    with pytest.raises(ConfigError) as refused:
        check_action_space("ppo", ("discrete",), "Pendulum-v1", found)
    sentence = str(refused.value)
    assert sentence.startswith("ppo needs a discrete action space; Pendulum-v1 has Box(")


def test_the_refusal_names_an_algorithm_that_can() -> None:
    found = describe_environment("CartPole-v1")
    with pytest.raises(ConfigError) as refused:
        check_action_space("mine", ("continuous",), "CartPole-v1", found)
    sentence, _, advice = str(refused.value).partition(". ")
    assert sentence == "mine needs a continuous action space; CartPole-v1 has Discrete(2)"
    assert advice.startswith("Try ")
    assert "ppo" in advice


def test_suitable_actions_and_scripts_that_do_not_say_are_let_through() -> None:
    found = describe_environment("CartPole-v1")
    check_action_space("ppo", ("discrete", "continuous"), "CartPole-v1", found)
    check_action_space("mine", (), "CartPole-v1", found)


# --- environments from elsewhere ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "env_id", "actions"),
    [
        ("ppo_atari", "ALE/Pong-v5", 6),
        ("ppo_atari", "PongNoFrameskip-v4", 6),
        ("ppo_atari", "Breakout-v5", 4),
        ("ppo_rnd_envpool", "MontezumaRevenge-v5", 18),
        ("ppo_rnd_envpool", "ALE/MontezumaRevenge-v5", 18),
    ],
)
def test_an_atari_game_is_found_by_each_of_its_names(algo: str, env_id: str, actions: int) -> None:
    assert describe_environment(env_id, algo) == {
        "observation_space": "Box(0, 255, (4, 84, 84), uint8)",
        "action_space": f"Discrete({actions})",
        "action_kind": "discrete",
    }


@pytest.mark.parametrize("name", ["StarpilotEasy-v0", "CoinrunEasy-v0", "starpilot", "coinrun-hard"])
def test_a_procgen_game_is_found_by_either_of_its_names(name: str) -> None:
    found = describe_environment(name, "ppg_procgen")
    assert found["observation_space"] == "Box(0, 255, (3, 64, 64), uint8)"
    assert (found["action_space"], found["action_kind"]) == ("Discrete(15)", "discrete")


@pytest.mark.parametrize(("name", "near"), [("starpilt", "starpilot"), ("StarpilotEsy-v0", "StarpilotEasy-v0")])
def test_an_unknown_procgen_game_is_answered_with_the_nearest(name: str, near: str) -> None:
    assert refusal(name, "ppg_procgen") == f"there is no Procgen game {name!r}; did you mean {near!r}?"


@pytest.mark.parametrize(
    ("algo", "env_id", "sentence"),
    [
        ("ppo_atari", "Pongo-v5", "there is no Atari game 'Pongo-v5'; did you mean 'Pong-v5'?"),
        (
            "ppo_rnd_envpool",
            "Montezuma-v5",
            "there is no Atari game 'Montezuma-v5'; did you mean 'MontezumaRevenge-v5'?",
        ),
    ],
)
def test_an_unknown_game_is_answered_with_the_nearest(algo: str, env_id: str, sentence: str) -> None:
    assert refusal(env_id, algo) == sentence


def test_another_kind_of_environment_is_refused_with_where_to_go() -> None:
    sentence = "an Atari game is needed, and CartPole-v1 is none: try an algorithm for Gymnasium's environments"
    assert refusal("CartPole-v1", "ppo_atari").startswith(sentence)
    for algo in ("ppo", ""):
        said = refusal("ALE/Pong-v5", algo)
        assert said.startswith("ALE/Pong-v5 is an Atari game, which this algorithm does not play. Try ")
        assert "ppo_atari" in said


INSTALL = "Install it with: python -m cleanrl_worker.tools.install_extras --set"


@pytest.mark.parametrize(
    ("algo", "env_id", "hidden", "extra"),
    [
        ("ppo_atari", "PongNoFrameskip-v4", ["ale_py"], "atari"),
        ("ppo_atari", "PongNoFrameskip-v4", ["cv2"], "atari"),
        ("ppo_rnd_envpool", "MontezumaRevenge-v5", ["envpool", "ale_py"], "envpool"),
        ("ppo_continuous_action", "Hopper-v5", ["mujoco"], "mujoco"),
        ("sac_continuous_action", "dm_control/cartpole-balance-v0", ["dm_control"], "dm-control"),
        ("ppo", "LunarLander-v3", ["Box2D"], "box2d"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_the_command(
    monkeypatch: pytest.MonkeyPatch, algo: str, env_id: str, hidden: list[str], extra: str
) -> None:
    hide(monkeypatch, *hidden, *(name for name in sys.modules if name.startswith("gymnasium.envs.box2d.")))
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.mujoco.", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, name)
    said = refusal(env_id, algo)
    assert said == f"{env_id} needs the {extra} extra, which is not installed. {INSTALL} {extra}"


def test_a_missing_procgen_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "envpool")
    sentence = f"starpilot needs the procgen extra, which is not installed. {INSTALL} procgen"
    assert refusal("starpilot", "ppg_procgen") == sentence


def test_a_package_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> None:
        raise ImportError("libQt5Gui.so.5: cannot open shared object file")

    monkeypatch.setattr(preflight, "_in_envpool", broken)
    said = refusal("starpilot", "ppg_procgen")
    assert said.startswith("starpilot needs the procgen extra (libQt5Gui.so.5: cannot open shared object file). ")


def test_one_source_is_enough_where_an_algorithm_has_two(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "envpool")
    assert describe_environment("MontezumaRevenge-v5", "ppo_rnd_envpool")["action_space"] == "Discrete(18)"
    monkeypatch.undo()
    hide(monkeypatch, "ale_py")
    assert describe_environment("MontezumaRevenge-v5", "ppo_rnd_envpool")["action_space"] == "Discrete(18)"
    assert describe_environment("CartPole-v1", "qdagger_dqn_atari_impalacnn")["action_space"] == "Discrete(2)"


def test_the_answer_comes_without_torch() -> None:
    """Its import takes seconds, and the answer is awaited by a person."""
    code = """if True:
        import sys
        from cleanrl_worker.preflight import describe_environment
        describe_environment("PongNoFrameskip-v4", "ppo_atari")
        describe_environment("MontezumaRevenge-v5", "ppo_rnd_envpool")
        describe_environment("CartPole-v1", "ppo")
        assert "torch" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_compiled_environment_has_the_spaces_of_gymnasiums_and_others_are_refused() -> None:
    assert describe_environment("Acrobot-v1", "ppo_jax") == describe_environment("Acrobot-v1")
    with pytest.raises(ConfigError, match="LunarLander-v3 is not compiled; these are: CartPole-v1, "):
        describe_environment("LunarLander-v3", "ppo_jax")
