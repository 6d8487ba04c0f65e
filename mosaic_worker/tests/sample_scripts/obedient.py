"""A script that obeys: counts steps, pauses, resumes, stops with a last checkpoint."""

from __future__ import annotations

import argparse
import os
import signal
import time
from dataclasses import dataclass, fields
from pathlib import Path

from mosaic_protocol.events import MetricRow
from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.outbox import OutboxWriter
from mosaic_worker.tests.sample_scripts.link import Link


@dataclass
class Args:
    seed: int = 1
    """Read and forgotten."""
    total_timesteps: int = 10
    """How far to count."""
    step_seconds: float = 0.005
    """How long a step takes."""
    checkpoint_seconds: float = 0.0
    """How long writing the checkpoint takes."""
    gate: str = ""
    """Hold before the last step until this file exists."""
    offset: float = 0.0
    """Added to every return, so that no two runs log the same values."""
    bare: int = 0
    """Write nothing but the journal: a full disk then meets no file of the script's own."""


def parse() -> Args:
    parser = argparse.ArgumentParser()
    for one in fields(Args):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(one.default), default=one.default)
    return Args(**vars(parser.parse_args()))


def may_step(args: Args, step: int) -> bool:
    return step + 1 < args.total_timesteps or not args.gate or Path(args.gate).exists()


def main() -> None:
    args, link = parse(), Link()
    signal.signal(signal.SIGTERM, lambda *_: None)  # what it means is heard on the link too
    journal = until_it_works(lambda: OutboxWriter(link.run_dir / "outbox", "script"), "open the journal")
    if not args.bare:
        (link.run_dir / "script.pid").write_text(str(os.getpid()))
    step, paused = 0, False
    stopped = not link.wait_for_go(total=args.total_timesteps)
    while step < args.total_timesteps and not stopped:
        word = link.hear(None if paused else args.step_seconds)
        if word == "stop":
            stopped = True
        elif word in ("pause", "resume"):
            paused = word == "pause"
            link.say(at=f"{word}d", step=step)
        elif may_step(args, step):
            step += 1
            journal.append(MetricRow(step=step, values={"charts/episodic_return": args.offset + step}))
    journal.wait_for_space(give_up=lambda: stopped)
    journal.close()
    if stopped:
        link.say(at="stopping", step=step)
    time.sleep(args.checkpoint_seconds)
    if not args.bare:
        link.save_checkpoint(step)
    link.say(at="stopped" if stopped else "done", step=step)


if __name__ == "__main__":
    main()
