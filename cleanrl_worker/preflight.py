"""Whether an environment exists and suits an algorithm, asked before a run starts. Imports gymnasium, not torch."""

from __future__ import annotations

from collections.abc import Callable

from cleanrl_worker.config import WorkerConfig
from mosaic_worker.script_worker import environments
from mosaic_worker.script_worker.config import ConfigError
from mosaic_worker.script_worker.environments import MissingExtraError, Spaces, gymnasium_spaces, listed


def describe_environment(env_id: str, algo: str = "") -> dict[str, str]:
    """The spaces of an environment, looked for where the algorithm gets its environments from.

    Without an algorithm of the manifest that is Gymnasium. Raises :class:`ConfigError` when it cannot be made.
    """
    return _spaces(env_id, algo).described()


def check_action_space(algo: str, accepted: tuple[str, ...], env_id: str, found: dict[str, str]) -> None:
    """Refuse an environment whose actions the algorithm cannot choose."""
    environments.check_action_space(algo, accepted, env_id, found, WorkerConfig.manifest())


def _spaces(env_id: str, algo: str) -> Spaces:
    """From the first source that has it. When none does, a missing package explains more than an unknown name."""
    from cleanrl_worker.atari import is_atari_name

    offered = WorkerConfig.manifest().algorithms
    sources = offered[algo].environments if algo in offered else ("gymnasium",)
    refusals: list[ConfigError] = []
    for source in sources:
        try:
            return _SOURCES[source](env_id)
        except ConfigError as error:
            refusals.append(error)
    if missing := [error for error in refusals if isinstance(error, MissingExtraError)]:
        raise missing[0]
    # An algorithm may play Atari's games and others: the refusal of the source that the name belongs to explains more.
    raise refusals[0] if is_atari_name(env_id) else refusals[-1]


def _from_gymnasium(env_id: str) -> Spaces:
    from cleanrl_worker.atari import is_atari_name

    if is_atari_name(env_id):
        players = [name for name, other in WorkerConfig.manifest().algorithms.items() if "atari" in other.environments]
        raise ConfigError(f"{env_id} is an Atari game, which this algorithm does not play. Try {listed(players)}.")
    return gymnasium_spaces(env_id, WorkerConfig.manifest())


def _from_ale(env_id: str) -> Spaces:
    from cleanrl_worker.atari import AtariEvaluation, UnknownGameError

    try:
        import cv2  # noqa: F401 - needed with the first picture

        game = AtariEvaluation(env_id)
    except ImportError as error:
        raise _missing(env_id, "atari", error) from error
    except UnknownGameError as error:
        raise ConfigError(_about(env_id, error)) from error
    return Spaces(game.observation_space, game.action_space)


def _from_envpool(env_id: str) -> Spaces:
    from cleanrl_worker.envpool_games import envpool_name

    return _game_of_envpool(env_id, envpool_name, "envpool")


def _from_procgen(env_id: str) -> Spaces:
    from cleanrl_worker.envpool_games import procgen_name

    return _game_of_envpool(env_id, procgen_name, "procgen")


def _game_of_envpool(env_id: str, name_of: Callable[[str], str], extra: str) -> Spaces:
    from cleanrl_worker.atari import UnknownGameError

    try:
        return _in_envpool(name_of(env_id))
    except ImportError as error:
        raise _missing(env_id, extra, error) from error
    except UnknownGameError as error:
        raise ConfigError(_about(env_id, error)) from error


def _from_compiled(env_id: str) -> Spaces:
    """The script itself names those that are compiled; their spaces are Gymnasium's."""
    from mosaic_worker.compiled.names import MODULES

    if env_id not in MODULES:
        raise ConfigError(f"{env_id} is not compiled; these are: {', '.join(MODULES)}")
    return gymnasium_spaces(env_id, WorkerConfig.manifest())


_SOURCES: dict[str, Callable[[str], Spaces]] = {
    "gymnasium": _from_gymnasium,
    "atari": _from_ale,
    "envpool": _from_envpool,
    "procgen": _from_procgen,
    "compiled": _from_compiled,
}


def _in_envpool(name: str) -> Spaces:
    """The spaces of one of EnvPool's environments, which is not made for that."""
    import envpool

    found = envpool.make_spec(name)
    return Spaces(found.gymnasium_observation_space, found.gymnasium_action_space)


def _missing(env_id: str, extra: str, error: BaseException) -> MissingExtraError:
    return environments.missing_extra(env_id, extra, error, WorkerConfig.manifest())


def _about(env_id: str, error: Exception) -> str:
    text = str(error)
    return f"an Atari game is needed, and {text}" if text.startswith(f"{env_id} is none") else text
