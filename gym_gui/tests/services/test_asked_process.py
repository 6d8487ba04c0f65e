"""A process that is asked one thing answers within bounds, or not at all, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolFailedError
from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from mosaic_protocol import asked_process
from mosaic_protocol.asked_process import Answer, AskedProcess, LongAnswerError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity

PATIENCE = 60.0
LONG = 600.0
"""How long a process would stay that nobody ended: much longer than any patience here."""


def ask(program: str, patience: float = PATIENCE) -> Answer:
    return AskedProcess([sys.executable, "-c", program], os.environ).answer(patience)


def leaving_a_child(note: Path) -> str:
    """Code that starts a child which keeps stdout and stderr open."""
    sleeper = f"import time; time.sleep({LONG})"
    return (
        f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {sleeper!r}]);"
        f" open({str(note)!r}, 'w').write(str(child.pid));"
    )


def ended(note: Path) -> Callable[[], bool]:
    return lambda: ProcessIdentity.of(int(note.read_text())) is None


def test_what_it_prints_and_how_it_ends_is_the_answer() -> None:
    told = ask("import sys; print('x' * 300_000); print('y' * 300_000, file=sys.stderr); sys.exit(3)")
    assert (told.status, len(told.said), told.errors[-2:]) == (3, 300_001, "y\n")


def test_a_child_that_keeps_the_pipes_open_delays_no_answer_and_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "child"
    began = time.monotonic()
    told = ask(leaving_a_child(note) + "print('{}')")
    assert (told.status, told.said) == (0, "{}\n")
    assert time.monotonic() - began < LONG / 2
    wait_for("the child to end", ended(note))


def test_patience_counts_for_the_children_too(tmp_path: Path) -> None:
    note = tmp_path / "child"
    program = leaving_a_child(note) + f"import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep({LONG})"
    process = AskedProcess([sys.executable, "-c", program], os.environ)
    wait_for("the child", lambda: note.exists() and note.read_text())
    with pytest.raises(TimeoutError):
        process.answer(0.1)
    wait_for("the child to end", ended(note))


def test_a_process_that_prints_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_process, "MOST_BYTES", 200_000)
    with pytest.raises(LongAnswerError):
        ask("while True: print('x' * 100_000)")
    with pytest.raises(TimeoutError):
        ask("import sys\nwhile True: print('x' * 100_000, file=sys.stderr)", patience=0.5)


def test_a_question_can_be_withdrawn(tmp_path: Path) -> None:
    note = tmp_path / "child"
    process = AskedProcess([sys.executable, "-c", leaving_a_child(note) + "child.wait()"], os.environ)
    told: list[Answer] = []
    asking = threading.Thread(target=lambda: told.append(process.answer(PATIENCE)))
    asking.start()
    wait_for("the child", lambda: note.exists() and note.read_text())
    process.kill()
    asking.join(PATIENCE)
    assert [answer.status for answer in told] == [-9]
    wait_for("the child to end", ended(note))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("print('[' * 200_000)", "did not answer with a JSON object"),
        ("print('{\"a\":' * 100_000 + '1' + '}' * 100_000)", "did not answer with a JSON object"),
        ('print(\'{"families": ["x"]}\')', "does not tell its environments"),
        ("print('{\"families\": 5}')", "does not tell its environments"),
        ('print(\'{"families": [{"name": "a", "environments": "abc"}]}\')', "does not tell its environments"),
    ],
    ids=["deep", "deep objects", "words", "a number", "a word for a list"],
)
def test_an_answer_that_is_none_becomes_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, sentence: str
) -> None:
    more = '\n[settings]\nenvironments_module = "odd_worker.places"\n'
    folder = dropped_worker(tmp_path / "workers", "odd", more=more)
    (folder / "odd_worker" / "places.py").write_text(program)
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
    with pytest.raises(ToolFailedError, match=sentence):
        WorkerQueries(MosaicPaths(tmp_path / "home")).environments("odd")
