"""Threads follow the reservation, unless a person set them."""

from __future__ import annotations

from mosaic_host.threads import THREAD_VARIABLES, single_threaded, thread_environment


def test_every_library_gets_as_many_threads_as_cpus_were_reserved() -> None:
    assert thread_environment(3, {}) == dict.fromkeys(THREAD_VARIABLES, "3")
    assert thread_environment(0, {}) == single_threaded() == dict.fromkeys(THREAD_VARIABLES, "1")


def test_what_the_daemons_environment_says_wins() -> None:
    told = thread_environment(2, {"MKL_NUM_THREADS": "5"})
    assert (told["MKL_NUM_THREADS"], told["OMP_NUM_THREADS"]) == ("5", "2")


def test_the_others_follow_openmp_where_only_that_is_set() -> None:
    assert set(thread_environment(2, {"OMP_NUM_THREADS": "8"}).values()) == {"8"}
    nested = thread_environment(2, {"OMP_NUM_THREADS": "4,2"})
    assert (nested["OMP_NUM_THREADS"], nested["OPENBLAS_NUM_THREADS"]) == ("4,2", "4")
