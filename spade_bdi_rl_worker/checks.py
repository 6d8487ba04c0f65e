"""What is looked at before a run starts; a dry run asks the same."""

from __future__ import annotations

from typing import Any

from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from spade_bdi_rl_worker.agent.actions import make_actions
from spade_bdi_rl_worker.agent.program import find_program, parse_program, read_program
from spade_bdi_rl_worker.crew import checkpoints_of
from spade_bdi_rl_worker.learning.environments import make_env, time_limit
from spade_bdi_rl_worker.learning.worlds import open_world
from spade_bdi_rl_worker.seeding import FROM, is_wanted, read_seed
from spade_bdi_rl_worker.settings import agents_of, xmpp_of
from spade_bdi_rl_worker.xmpp import ServerError
from spade_bdi_rl_worker.xmpp import check as check_server


def check_run(settings: Settings) -> dict[str, Any]:
    """Raises UsageError. Tells what will be used."""
    actions, told = make_actions(), {}
    for agent in agents_of(settings.params):
        path = find_program(agent.plans)
        parse_program(read_program(path), str(path), actions)
        told[agent.name] = str(path)
    found = checkpoints_of(settings) if settings.params[FROM] else None
    with make_env(settings.env_id, settings.params) as env:
        limit, seed = time_limit(env), {}
        if is_wanted(settings, found.manifest if found is not None else None):
            seed = {"seeded_from": str(read_seed(settings.params, settings.env_id, env, open_world(env)))}
    try:
        server = check_server(xmpp_of(settings.params))
    except ServerError as error:
        raise UsageError(str(error)) from error
    return {"plans": told, "longest_episode": limit, **seed, "xmpp": str(server)}
