"""JAX, set up for one process: where compiled programs are kept, and how many threads calculate.

Importing JAX starts no thread; :func:`start` does, so a process that forks others must not call it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import random
from functools import cache
from pathlib import Path

import numpy as np

from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.compiled.names import NO_JAX

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(NO_JAX, name=error.name) from error

__all__ = ["jax", "jnp", "start"]

_MOST_CACHED_BYTES = 256 * 2**20


def start(threads: int, seed: int) -> None:
    """Set JAX up; call before the first computation. `threads`: how many calculate, in a process that has not begun.
    `seed`: for the generators that the process has beside JAX's, which an environment may draw from.

    Networks of script size are slower on two threads than on one, so one is the default of every script. Programs that
    were compiled once are kept below the data root and shared by all runs of this machine: a second run of the same
    shape starts at once.
    """
    random.seed(seed)
    np.random.seed(seed)
    os.environ["PJRT_NPROC"] = str(threads)  # read when the first array is made, and by nothing else
    jax.config.update("jax_platforms", "cpu")
    folder = MosaicPaths.from_environment().jax_cache / _machine()
    if _may_write(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _may_write(folder: Path) -> bool:
    """A cache is not worth a run: without one it compiles."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@cache
def _machine() -> str:
    """A name for the processor and the version of JAX: code that was compiled for another one must not be executed,
    and a data root may be on a disk that several machines share."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    known = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    told = "\n".join([platform.machine(), jax.__version__, *known])
    return hashlib.sha256(told.encode()).hexdigest()[:16]
