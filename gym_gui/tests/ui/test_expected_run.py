"""What the run in a form would take is told at once, then whole, and never for something else than stands there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gym_gui.services.run_request import RunRequest
from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.tests.support.made_sweeps import made_spec
from gym_gui.ui.forms.expected_run import ExpectedRun
from mosaic_protocol.proto import trainer_pb2 as pb

SETTINGS: dict[str, Any] = {"algo": "ppo", "env_id": "CartPole-v1"}


class FakeForm:
    """A form with nothing but numbers in it, and a bridge whose threads wait until a test lets them go on."""

    def __init__(self, folder: Path) -> None:
        self.steps: int | None = 10_000
        self.entry: Any = SimpleNamespace(capabilities=SimpleNamespace(interactive=False))
        self.gpus, self.cpus = 0, 4
        self.spec: SweepSpec | None = None
        self.told: tuple[str, str] = ("", "")
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.bar: Any = SimpleNamespace(set_estimate=self._tell)
        self.sweep: Any = SimpleNamespace(is_on=False)
        (folder / "model").write_bytes(b"x" * 100_000)
        config = {"metadata": {"worker": {"config": SETTINGS}}}
        ran = pb.Run(
            worker_type="cleanrl",
            run_dir=str(folder),
            last_step=1000,
            active_seconds=10,
            config_json=json.dumps(config),
            **SETTINGS,
        )
        bridge = SimpleNamespace(in_background=lambda work, done, failed, owner: self.waiting.append((work, done)))
        self.expected = ExpectedRun(self, SimpleNamespace(runs=[ran], bridge=bridge))  # type: ignore[arg-type]

    def _tell(self, sentence: str, basis: str = "", caution: str = "") -> None:
        self.told = (sentence, caution)

    def tr(self, text: str) -> str:
        return text

    def request(self) -> RunRequest:
        return RunRequest("cleanrl", "cleanrl_worker.cli", "x", SETTINGS)

    def steps_wanted(self) -> int | None:
        return self.steps

    def sweep_spec(self) -> SweepSpec | None:
        return self.spec

    def type(self, steps: int | None) -> None:
        self.steps = steps
        self.expected.show(self.request(), steps, again=False)

    def let_a_thread_end(self) -> None:
        work, done = self.waiting.pop(0)
        done(work())


def test_time_is_told_at_once_and_disk_when_it_was_measured(tmp_path: Path) -> None:
    form = FakeForm(tmp_path)
    form.type(10_000)
    assert form.told == ("About 2 min, from 1 earlier run", "")
    form.let_a_thread_end()
    assert form.told == ("About 2 min, 102.4 kB of disk, from 1 earlier run", "")
    form.type(10_000)
    assert form.waiting == [], "what is known is not looked at again"


def test_while_somebody_types_one_thread_looks_and_then_at_the_last_one_only(tmp_path: Path) -> None:
    form = FakeForm(tmp_path)
    for steps in (1_000, 10_000, 100_000, 20_000_000):
        form.type(steps)
    assert len(form.waiting) == 1
    assert form.told[0] == "About 2.3 days, from 1 earlier run"
    assert form.told[1].startswith("On the CPU alone this takes about 2.3 days. Try 300,000 steps first")
    form.let_a_thread_end()
    assert form.told[0] == "About 2.3 days, from 1 earlier run", "an answer to what does not stand there any more"
    form.let_a_thread_end()
    assert form.told[0] == "About 2.3 days, 102.4 kB of disk, from 1 earlier run"
    assert form.waiting == []


def test_without_a_number_of_steps_or_in_a_session_nothing_is_told(tmp_path: Path) -> None:
    form = FakeForm(tmp_path)
    form.type(None)
    assert form.told == ("", "") and form.waiting == []
    form.entry.capabilities.interactive = True
    form.type(10_000)
    assert form.told == ("", "") and form.waiting == []


def test_of_a_sweep_the_whole_is_told_and_one_run_until_the_sweep_is_whole(tmp_path: Path) -> None:
    form = FakeForm(tmp_path)
    form.sweep.is_on = True
    form.type(4_000)
    assert form.told[0] == "Each run about 40 s, from 1 earlier run", "there is nothing to search yet"
    form.spec = made_spec(trials=10, seeds=(1,), parallel=2)
    form.type(4_000)
    assert form.told[0] == "About 2 min to 3 min for the whole sweep"
    form.let_a_thread_end()
    assert form.told[0] == "About 2 min to 3 min for the whole sweep, up to 1.0 MB of disk"
    form.spec = made_spec(trials=9000, seeds=(1,), parallel=2)
    form.type(4_000)
    assert form.told[1].startswith("This sweep may take 2.1 days: try fewer trials")
