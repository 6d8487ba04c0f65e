"""A door: the interface of gym before 0.26 that CORL's scripts speak, over today's gymnasium and MOSAIC's datasets.

It stands on the path of such a script alone. :func:`make` answers the name of the run's dataset with the environment
that the dataset is of; any other name is one of gymnasium's.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.spaces import Space

from . import spaces, wrappers
from .core import Env, Wrapper

__all__ = ["Env", "Space", "Wrapper", "make", "spaces", "wrappers"]
__version__ = "0.23.1"


def make(name: str, **options: Any) -> Env:
    """An environment as old scripts know it, with its actions between -1 and 1."""
    from .offline import OfflineEnv, dataset_called

    found = dataset_called(name)
    if found is None:
        return Env(gymnasium.make(name, **options))
    return OfflineEnv(found, **options)
