"""How many threads the libraries of a run may use: as many as it reserved CPUs.

Left alone, each of them takes every core it sees, in every run: on a busy machine that is many times slower than one
thread each. The daemon's own environment wins, which is how a person sets other numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

_OPENMP = "OMP_NUM_THREADS"
"""PyTorch's number of threads follows this one, and so do the others where they have no value of their own."""
THREAD_VARIABLES = (
    _OPENMP,
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def thread_environment(cpus: int, inherited: Mapping[str, str]) -> dict[str, str]:
    """The variables for a run that reserved so many CPUs."""
    most = inherited.get(_OPENMP, "").partition(",")[0] or str(max(1, cpus))
    return {name: inherited.get(name) or most for name in THREAD_VARIABLES}


def single_threaded() -> dict[str, str]:
    """For a process that forks: a fork of a pool of threads can hang."""
    return dict.fromkeys(THREAD_VARIABLES, "1")
