"""How the queue decides when it has 10,000 runs and 500 hosts. In one process: no daemon, no network, no host."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.report import Line, Section, Target
from gym_gui.services.trainer.runs.queue_keys import QueueKeys
from gym_gui.services.trainer.runs.run_queue import ANY, Demand, RunQueue
from mosaic_host.capacity import HostCapacity
from mosaic_host.gpu import Gpu

NAME = "many_hosts"
TITLE = "10,000 queued runs on 500 hosts"
METHOD = """\
The queue of the daemon, filled in this process: 500 hosts of 8 to 64 CPUs, a fifth of them with GPUs, ten labels spread
over them; 10,000 runs, half of which go anywhere, three tenths ask for a label and two tenths name a host, with 1 to 8
CPUs each, from a seed. All times are CPU time of one thread. A decision is one call that starts the next run or finds
that none can; when no run can start, the whole line was looked at."""

HOSTS, RUNS, LABELS = 500, 10_000, 10
_SEED = 7


def run(*, quick: bool = False) -> Section:
    starts, full, ends, memory = list[float](), list[float](), list[float](), list[float]()
    for number in range(1 if quick else 5):
        tracemalloc.start()
        queue = filled(_SEED + number)
        memory.append(tracemalloc.get_traced_memory()[0] / 2**20)
        tracemalloc.stop()
        began, count = time.process_time(), 0
        while queue.take_next() is not None:
            count += 1
        starts.append((time.process_time() - began) / count * 1000)
        full.append(_milliseconds(queue.take_next))
        live = list(queue.live)
        random.Random(number).shuffle(live)
        for run_id in live[:20]:
            queue.release(run_id)
            ends.append(_milliseconds(queue.take_next))
    lines = [
        Line("Deciding when no run can start", full, "ms", Target("<", 50)),
        Line("Starting what fits after one run ended", ends, "ms", Target("<", 50)),
        Line("Starting a run while the hosts fill up", starts, "ms"),
        Line("Memory of the queue itself", memory, "MB"),
    ]
    return Section(NAME, TITLE, METHOD, lines)


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return (time.process_time() - began) * 1000


def filled(seed: int) -> RunQueue:
    """The queue with every host open and every run waiting."""
    draw, keys = random.Random(seed), QueueKeys()
    queue = RunQueue(HostCapacity(8, 32_000, ()))
    hosts: dict[str, tuple[HostCapacity | None, bool]] = {}
    labels: dict[str, frozenset[str]] = {}
    for number in range(HOSTS):
        gpus = tuple(Gpu(index, "", "", 0) for index in range(4 if number % 5 == 0 else 0))
        hosts[f"n{number}"] = (HostCapacity(draw.choice([8, 16, 32, 64]), 256_000, gpus), True)
        labels[f"n{number}"] = frozenset({f"l{number % LABELS}"})
    queue.set_hosts(hosts, labels)
    for number in range(RUNS):
        queue.enqueue(f"{number:026d}", _demand(draw), keys.next())
    return queue


def _demand(draw: random.Random) -> Demand:
    cpus, kind = draw.randint(1, 8), draw.random()
    if kind < 0.5:
        return Demand(cpus, 0, 1000, host=ANY)
    if kind < 0.8:
        return Demand(cpus, 0, 1000, host=ANY, labels=frozenset({f"l{draw.randrange(LABELS)}"}))
    return Demand(cpus, 0, 1000, host=f"n{draw.randrange(HOSTS)}")
