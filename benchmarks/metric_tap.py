"""What it costs a script of CORL's that each of its updates logs a row: the harness around its loop and the tap behind
``wandb.log``, against the same loop with nobody listening."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.machine import SCRATCH
from benchmarks.report import Line, Section, Target, interleaved, ratios

NAME = "metric_tap"
TITLE = "The metric tap of CORL's scripts, against nobody listening"
METHOD = """\
One process, one thread of PyTorch: TD3+BC's updates with networks of 256x256 and batches of 256, each of which logs
three numbers through the door to `wandb`. Listening: the loop under the harness, rows to the journal and to TensorBoard
files. Else: the same loop, and the door hands rows on to nobody. Blocks are interleaved as ABBA; a ratio belongs to one
pair. CPU time is that of the process, the writers' threads included."""
TARGET = Target("≥", 0.98)
_SCRIPT = "def train():\n    for t in range(9):\n        trainer.loss.backward()\ntrain()\n"


def run(*, quick: bool = False) -> Section:
    import torch

    torch.set_num_threads(1)
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tap-", dir=SCRATCH) as folder:
        update = _updates()
        _block(update, range(20))
        listening = _Listening(Path(folder))
        count = 60 if quick else 150
        measured = interleaved(
            3 if quick else 10, lambda: listening.block(update, count), lambda: _alone(update, count)
        )
        listening.close()
    pairs = [(ours, bare) for ours, bare in measured]
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line("updates per CPU second, listening ÷ nobody", ratios(pairs), target=TARGET),
            Line("updates per CPU second, nobody listening", [bare for _, bare in measured], "/s"),
        ],
    )


def _updates() -> Callable[[], dict[str, float]]:
    import torch
    from torch import nn

    def network(inside: int, outside: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inside, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outside))

    torch.manual_seed(0)
    actor, critics = network(11, 3), nn.ModuleList([network(14, 1), network(14, 1)])
    optimizers = [torch.optim.Adam(one.parameters(), lr=3e-4) for one in (actor, critics)]
    data = torch.randn(20_000, 14)

    def update() -> dict[str, float]:
        batch = data[torch.randint(0, len(data), (256,))]
        target = batch.sum(1, keepdim=True)
        critic_loss = sum((critic(batch) - target).pow(2).mean() for critic in critics)
        action = torch.tanh(actor(batch[:, :11]))
        actor_loss = -critics[0](torch.cat([batch[:, :11], action], 1)).mean() + (action - batch[:, 11:]).pow(2).mean()
        for optimizer, loss in zip(optimizers, (actor_loss, critic_loss), strict=True):
            optimizer.zero_grad()
            loss.backward(retain_graph=loss is actor_loss)
        for optimizer in optimizers:
            optimizer.step()
        found = critic_loss.item(), actor_loss.item()
        return {"critic_loss": found[0], "actor_loss": found[1], "q_mean": found[0] - found[1]}

    return update


def _block(update: Callable[[], dict[str, float]], turns: Iterable[int]) -> None:
    """The loop of a script: the door is looked up for each row, as ``wandb.log`` does."""
    from mosaic_worker.harness import row_tap

    for t in turns:
        row_tap.listener.row(update(), t)


def _alone(update: Callable[[], dict[str, float]], count: int) -> float:
    from mosaic_worker.harness import row_tap

    row_tap.listen(row_tap._Nobody())
    began = time.process_time()
    _block(update, range(count))
    return count / (time.process_time() - began)


class _Listening:
    """A run with a journal and TensorBoard files, and the conductor of its script."""

    def __init__(self, folder: Path) -> None:
        from mosaic_protocol.outbox import OutboxWriter
        from mosaic_worker.harness.conductor import Conductor, Settings
        from mosaic_worker.harness.source import ScriptSource
        from mosaic_worker.training.session import TrainingSession
        from mosaic_worker.training.sinks import JournalSink, TensorBoardSink

        script = folder / "script.py"
        script.write_text(_SCRIPT)
        (folder / "outbox").mkdir()
        self._session = TrainingSession({}, "metric_tap", folder, folder / "tensorboard")
        self._session._sinks += [
            JournalSink(OutboxWriter(folder / "outbox", "script")),
            TensorBoardSink.open(folder / "tensorboard", {}),
        ]
        settings = Settings("metric_tap", per_turn=1)
        self._make: Callable[[], Any] = lambda: Conductor(self._session, ScriptSource.read(script), settings, False)

    def block(self, update: Callable[[], dict[str, float]], count: int) -> float:
        from mosaic_worker.harness import row_tap

        conductor = self._make()
        row_tap.listen(conductor)
        conductor._globals = globals()
        began = time.process_time()
        _block(update, conductor.loop(range(count)))
        took = time.process_time() - began
        row_tap.listen(row_tap._Nobody())
        return count / took

    def close(self) -> None:
        self._session.close(failed=False)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for line in run(quick=True).lines:
        print(f"{line.what}: {line.measured}")
