"""What the daemon costs while nothing happens: CPU, and memory beyond an interpreter with an empty gRPC server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.daemon import BenchDaemon, ScratchHome
from benchmarks.machine import children, cpu_seconds, memory_mb
from benchmarks.report import Line, Section, Target, interleaved

NAME = "idle_daemon"
TITLE = "The daemon while nothing happens"
METHOD = """\
A daemon without runs, 3 s after it first answered, without a fork server. CPU is its CPU time over a span
of waiting. Memory is compared with the gRPC baseline, a bare interpreter that imported `grpc` and serves an
empty `grpc.aio` server on a free port; both are started again for every pair. RSS counts shared pages in
full, PSS in parts."""

BASELINE = """
import asyncio, grpc, sys

async def main():
    server = grpc.aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)

asyncio.run(main())
"""
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True)
class Footprint:
    rss: float
    pss: float
    cpu_percent: float = 0.0


def run(*, quick: bool = False) -> Section:
    pairs, span = (1, 10.0) if quick else (3, 30.0)
    measured = interleaved(pairs, lambda: _daemon(span), _baseline)
    warm = _fork_server(span / 3)
    return Section(NAME, TITLE, METHOD, [*_lines(measured), *warm])


def _lines(measured: list[tuple[Footprint, Footprint]]) -> list[Line]:
    return [
        Line("CPU of an idle daemon", [ours.cpu_percent for ours, _ in measured], "% of one core", Target("<", 1)),
        Line("RSS beyond the gRPC baseline", [ours.rss - base.rss for ours, base in measured], "MB", Target("<", 80)),
        Line("PSS beyond the gRPC baseline", [ours.pss - base.pss for ours, base in measured], "MB", Target("<", 80)),
        Line("RSS of the daemon", [ours.rss for ours, _ in measured], "MB"),
        Line("RSS of the gRPC baseline", [base.rss for _, base in measured], "MB"),
    ]


def _daemon(span: float) -> Footprint:
    with ScratchHome() as paths, BenchDaemon(paths) as daemon:
        return _footprint(daemon.pid, span)


def _baseline() -> Footprint:
    with _empty_server() as pid:
        return _footprint(pid, span=0.0)


def _fork_server(span: float) -> list[Line]:
    """The price of warm starts while nobody uses them."""
    with ScratchHome() as paths, BenchDaemon(paths, "--prewarm", "cleanrl") as daemon:
        daemon.wait_warm()
        (server,) = children(daemon.pid)
        found = _footprint(server, span)
    return [
        Line("CPU of an idle fork server", [found.cpu_percent], "% of one core"),
        Line("PSS of an idle fork server", [found.pss], "MB"),
    ]


def _footprint(pid: int, span: float) -> Footprint:
    time.sleep(_SETTLE_SECONDS)
    percent = _cpu_percent(pid, span) if span else 0.0
    return Footprint(*memory_mb(pid), percent)


def _cpu_percent(pid: int, span: float) -> float:
    used, began = cpu_seconds(pid), time.monotonic()
    time.sleep(span)
    return 100 * (cpu_seconds(pid) - used) / (time.monotonic() - began)


@contextmanager
def _empty_server() -> Iterator[int]:
    child = subprocess.Popen([sys.executable, "-c", BASELINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdout.readline()
        yield child.pid
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()
