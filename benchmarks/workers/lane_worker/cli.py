"""``python -m lane_worker.cli --config F``: params ``rate`` (steps a second; 0 for all that can be) and ``seconds``."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from mosaic_protocol.states import Desired
from mosaic_protocol.worker_client import WorkerSession
from mosaic_worker.recording.step_recorder import StepRecorder

EPISODE = 200
_DIFFERENT = 100_000
_AT_ONCE = 1_000


def _record(session: WorkerSession, rate: float, seconds: float) -> None:
    observations = list(np.random.default_rng(0).standard_normal((_DIFFERENT, 4)).astype(np.float32))
    with closing(StepRecorder(session.run.outbox, give_up=lambda: session.desired is Desired.STOP)) as recorder:
        lane = recorder.lane("agent", "policy")
        began, number = time.monotonic(), 0
        while (passed := time.monotonic() - began) < seconds and session.desired is not Desired.STOP:
            if rate and number > rate * passed:
                time.sleep(0.001)
                continue
            for _ in range(_AT_ONCE):
                ends = number % EPISODE == EPISODE - 1
                lane.append(observations[number % _DIFFERENT], number & 1, 1.0, ends)
                number += 1
            session.progress(number)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--grpc-target")
    params = json.loads(parser.parse_args().config.read_text())["params"]
    with WorkerSession.from_environment() as session:
        session.started()
        _record(session, float(params["rate"]), float(params["seconds"]))


if __name__ == "__main__":
    main()
