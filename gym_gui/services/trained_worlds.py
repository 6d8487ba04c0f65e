"""The environment that a run learned in, for sessions that play there: with its checkpoint in the seat, or taken over
in one of its episodes. Needs no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest
from mosaic_protocol.settings_schema import ENV_ARGUMENT, parameters
from mosaic_protocol.worker_manifest import discover
from mosaic_protocol.worker_settings import schema_of

if TYPE_CHECKING:
    from gym_gui.services.checkpoints.entry import CheckpointEntry

ENV_KWARGS = "env_kwargs"


def game_of(entry: CheckpointEntry) -> dict[str, Any]:
    """The settings of a session whose environment is made as the checkpoint's run made its own. Blocking.

    Of a checkpoint that cannot be read nothing is known here; the session says what is wrong with it.
    """
    try:
        return made_with(entry.worker, read_manifest(entry.path).args)
    except CheckpointError:
        return {}


def made_with(worker: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a run of a worker with these parameters."""
    manifest = discover().workers.get(worker)
    known = parameters(schema_of(manifest) or {}) if manifest is not None else {}
    given = params.get(ENV_KWARGS)
    named = [name for name, one in known.items() if one.get(ENV_ARGUMENT) is True and params.get(name) is not None]
    arguments = {**(given if isinstance(given, dict) else {}), **{name: params[name] for name in named}}
    return {ENV_KWARGS: arguments} if arguments else {}
