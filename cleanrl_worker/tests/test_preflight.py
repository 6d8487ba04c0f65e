"""An environment is tried before the run starts; whatever is wrong with it becomes one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

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


def refusal(env_id: str) -> str:
    with pytest.raises(ConfigError) as refused:
        describe_environment(env_id)
    return str(refused.value)


def test_spaces_are_told() -> None:
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


def test_what_an_environment_prints_stays_out_of_our_answer(
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
