"""Internal: makes an environment in the script's own Python and prints its spaces as one line of JSON."""

from __future__ import annotations

import importlib
import json
import sys
import warnings

from mosaic_worker.harness.surroundings import register_atari

_KINDS = {"Discrete": "discrete", "Box": "continuous", "MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary"}


def main() -> None:
    library, env_id = sys.argv[1:]
    warnings.simplefilter("ignore")
    register_atari({library})
    try:
        env = importlib.import_module(library).make(env_id)
    except Exception as error:  # noqa: BLE001 - an environment's constructor is foreign code
        print(json.dumps({"problem": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}))
        return
    kind = type(env.action_space).__name__
    spaces = {"observation_space": str(env.observation_space), "action_space": str(env.action_space)}
    print(json.dumps({**spaces, "action_kind": _KINDS.get(kind, kind)}))
