"""Tables that begin with what somebody played: the recorded steps of a session or a run, checked and learned from.

The recording is read before the run starts, and once more when it does.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from mosaic_protocol.checkpoint_manifest import RECORDED_STEPS, CheckpointManifest
from mosaic_protocol.events import RecordError
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.steps.chunk import ChunkError
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import COPIED_STEPS, ENVIRONMENT, Recording, RecordingError
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from spade_bdi_rl_worker.learning.algorithms import Learner
from spade_bdi_rl_worker.learning.environments import make_env
from spade_bdi_rl_worker.learning.offline import Experience, teach
from spade_bdi_rl_worker.learning.recorded_experience import ExperienceReader
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld

FROM, ACTOR = "seed_from", "seed_actor"
_THIS_WORKER = "spade_bdi_rl_worker"
_OPTION = "--seed-from"


@dataclass(frozen=True)
class Seed:
    """What tables begin with. Belongs to one thread."""

    name: str
    about: Mapping[str, Any]
    experience: Experience
    episodes: int
    actor: str
    world: TableWorld | SteppedWorld
    """The one in whose numbers the steps are."""

    def prepare(self, world: TableWorld | SteppedWorld) -> None:
        """A world that numbers states as they are seen gives those of the recording the same numbers."""
        if isinstance(world, SteppedWorld) and isinstance(self.world, SteppedWorld):
            world.seen = self.world.seen

    def fill(self, learner: Learner) -> None:
        teach(learner, self.experience)

    @property
    def steps(self) -> int:
        return self.experience.steps

    @property
    def origin(self) -> dict[str, Any]:
        """For checkpoints to tell."""
        told = {name: self.about[name] for name in ("run_id", "run_name") if self.about.get(name)}
        told |= {"actor": self.actor} if self.actor else {}
        counted = {"steps": self.steps, "episodes": self.episodes}
        return {"kind": RECORDED_STEPS, "recording": self.name, **told, **counted}

    def __str__(self) -> str:
        whose = f" of {self.actor}" if self.actor else ""
        return f"{_counted(self.steps, 'step')}{whose} in {_counted(self.episodes, 'episode')} of {self.name}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def is_wanted(settings: Settings, begun_with: CheckpointManifest | None) -> bool:
    """Whether a run begins with recorded steps. Raises UsageError where it begins with something else as well."""
    folder = settings.params.get(FROM)
    if not folder or begun_with is None:
        return bool(folder)
    if settings.resume and begun_with.args.get(FROM) == folder:
        return False  # they are in its table
    with_what = "--resume" if settings.resume else "--warm-start"
    raise UsageError(f"give {_OPTION} or {with_what}, not both: either fills the table")


def read_seed(params: Mapping[str, Any], env_id: str, env: gym.Env[Any, Any], world: TableWorld | SteppedWorld) -> Seed:
    """The recorded steps that a run's parameters name, in the numbers of its world. Raises UsageError."""
    folder = Path(str(params[FROM])).expanduser()
    actor = str(params.get(ACTOR) or "")
    try:
        recording = Recording.at(folder)
        name = _name(recording)
        _require_same_environment(recording.about, name, env_id, env)
        reader = ExperienceReader(env, world, name, actor)
        for episode in read_episodes(reader.counting(recording.chunks())):
            reader.take(episode)
    except (RecordingError, ChunkError, RecordError) as error:
        hint = "" if "/" in str(params[FROM]) else "; `mosaic train` copies the steps of a run that you name"
        raise UsageError(f"{_OPTION}: {error}{hint}") from error
    except OSError as error:
        raise UsageError(f"{_OPTION}: {folder} cannot be read: {error.strerror}") from error
    promised = recording.about.get(COPIED_STEPS)
    experience = reader.experience(promised if isinstance(promised, int) else None)
    return Seed(name, recording.about, experience, reader.episodes, actor, world)


def _name(recording: Recording) -> str:
    about = recording.about
    run_id, called = str(about.get("run_id") or ""), str(about.get("run_name") or "")
    return one_line(f"{called} ({run_id[-6:]})" if called and run_id else called or recording.folder.name)


# ---- whether it is the same world ------------------------------------------------------------------------------------


def _require_same_environment(about: Mapping[str, Any], name: str, env_id: str, env: gym.Env[Any, Any]) -> None:
    settings = about.get("settings")
    there = about.get("env_id") or (settings.get("env_id") if isinstance(settings, dict) else None)
    if isinstance(there, str) and there != env_id:
        raise UsageError(
            f"{_OPTION}: {name} was recorded in {one_line(there)}, and this run learns in {env_id}: "
            "a table holds the values of one environment"
        )
    recorded = _recorded_settings(about, env_id)
    if recorded is None:
        return  # the steps themselves must be possible here
    before, now = _filled(recorded, env), _filled(env.spec.kwargs if env.spec is not None else {}, env)
    for setting in sorted(before.keys() | now.keys()):
        if before.get(setting) != now.get(setting):
            raise UsageError(
                f"{_OPTION}: {name} was recorded with {setting} {_shown(before.get(setting))}, and this run has "
                f"{_shown(now.get(setting))}: what is right in one is wrong in the other; give both the same"
            )


def _recorded_settings(about: Mapping[str, Any], env_id: str) -> dict[str, Any] | None:
    """What the environment of the recording was made with; None where nobody knows."""
    try:
        told: Any = json.loads(about[ENVIRONMENT])["kwargs"]
    except (KeyError, TypeError, ValueError, RecursionError):
        told = None
    if isinstance(told, dict) or about.get("worker") != _THIS_WORKER:
        return told if isinstance(told, dict) else None
    settings = about.get("settings")
    params = settings.get("params") if isinstance(settings, dict) else about.get("args")
    with closing(make_env(env_id, params if isinstance(params, dict) else {})) as env:
        return dict(env.spec.kwargs) if env.spec is not None else None


def _filled(settings: Mapping[str, Any], env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Settings with the constructor's defaults where nothing was set, as JSON has them."""
    parameters = inspect.signature(type(env.unwrapped)).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    found: dict[str, Any] = json.loads(json.dumps({**defaults, **settings}, default=str))
    return {name: value for name, value in found.items() if name != "render_mode"}


def _shown(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value))[:80]
