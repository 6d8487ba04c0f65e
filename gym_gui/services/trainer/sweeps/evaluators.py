"""The evaluations that a daemon has under way for its sweeps: one program of a worker each, at most one a core.

Nothing of them is remembered: a program ends with the daemon, and the next daemon finds in the rows that the evaluation
is outstanding. One that had ended is found on the disk and not made again; one that had not gives the same number, as
its episodes are drawn from the same seed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.sweeps.evaluation import StoppedError, evaluated
from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.services.trainer.sweeps import events as ev
from gym_gui.services.worker_tools import ToolError, ToolHandle, ToolRefusedError
from mosaic_protocol.paths import MosaicPaths

Key: TypeAlias = tuple[str, int, int]
"""Sweep, trial and index of the seed."""
_POLITE_SECONDS = 5.0


@dataclass
class _UnderWay:
    handle: ToolHandle
    future: Future[float | None]


class Evaluators:
    """Belongs to the daemon's event loop."""

    def __init__(self, paths: MosaicPaths) -> None:
        self._paths = paths
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "evaluations")
        self._under_way: dict[Key, _UnderWay] = {}

    def begin(self, key: Key, spec: SweepSpec, runs: Sequence[str], ended: Callable[[], None]) -> None:
        """A level: what is under way is left alone. ``ended`` is called in the loop."""
        if key in self._under_way:
            return
        handle, loop = ToolHandle(), asyncio.get_running_loop()
        future = self._pool.submit(evaluated, self._paths, spec, runs, handle)
        self._under_way[key] = _UnderWay(handle, future)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended))

    def result(self, key: Key) -> ev.Evaluated | ev.EvaluationFailed | None:
        """What became of an evaluation; None while it goes on. May be asked again until it is :meth:`forget`-ten.
        Raises OSError where its result could not be kept."""
        found = self._under_way.get(key)
        if found is None or not found.future.done():
            return None
        _, number, index = key
        try:
            return ev.Evaluated(number, index, found.future.result())
        except (ToolRefusedError, CheckpointsError) as error:
            return ev.EvaluationFailed(number, index, str(error), final=True)
        except (ToolError, StoppedError) as error:
            return ev.EvaluationFailed(number, index, str(error) or "its evaluation was ended")

    def forget(self, key: Key) -> None:
        self._under_way.pop(key, None)

    async def halt(self, key: Key) -> None:
        """Until no process plays for it any more."""
        found = self._under_way.get(key)
        if found is None:
            return
        found.handle.stop()
        ending = asyncio.wrap_future(found.future)
        done, _ = await asyncio.wait([ending], timeout=_POLITE_SECONDS)
        if not done:
            found.handle.kill()
            await asyncio.wait([ending])
        self.forget(key)

    async def close(self) -> None:
        """Nothing that ends here is kept: the next daemon plays it again."""
        for one in self._under_way.values():
            one.handle.kill()
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
