"""A worker's small programs: what they say arrives, and every way they can end becomes one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services import worker_tools
from gym_gui.services.worker_tools import ToolFailedError, ToolHandle, ToolRefusedError, WorkerTool
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import load_manifest

MANIFEST = """
schema = 1
[worker]
type = "small"
name = "Small"
version = "1"
summary = "For tests."
lane = "analytics"
module = "small_worker.tool"
"""

Start = Callable[[str], WorkerTool]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a tool that consists of a few lines of Python."""
    package = tmp_path / "small_worker"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "worker.toml").write_text(MANIFEST)

    def start(program: str) -> WorkerTool:
        (package / "tool.py").write_text(program)
        return WorkerTool(load_manifest(package), MosaicPaths(tmp_path / "home"), "small_worker.tool", ["a", "b"])

    return start


def said(tool: WorkerTool) -> list[dict[str, Any]]:
    with tool:
        return list(tool.messages())


def test_objects_arrive_and_other_lines_are_passed_over(start: Start) -> None:
    program = """print('{"words": ["a", "b"]}'); print("hello"); print("[" * 200_000); print('{"last": 1}')"""
    assert said(start(program)) == [{"words": ["a", "b"]}, {"last": 1}]


def test_a_refusal_is_the_last_sentence_of_the_tool(start: Start) -> None:
    program = (
        "import sys; print('a warning', file=sys.stderr); print('small_worker: not so', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(ToolRefusedError, match=r"^not so$"):
        said(start(program))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("raise SystemExit('broken')", r"^small_worker\.tool ended with status 1: broken$"),
        ("1 / 0", r"ended with status 1: ZeroDivisionError: division by zero$"),
        ("import os; os.kill(os.getpid(), 9)", r"was killed by signal 9: it said nothing$"),
        ("import sys; sys.exit(2)", r"ended with status 2: it said nothing$"),
    ],
)
def test_a_tool_that_breaks_is_reported_with_its_last_line(start: Start, program: str, sentence: str) -> None:
    with pytest.raises(ToolFailedError, match=sentence):
        said(start(program))


def test_a_line_without_an_end_is_not_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_tools, "_LONGEST_LINE", 100_000)
    with pytest.raises(ToolFailedError, match="wrote a line of more than"):
        said(start("import sys\nwhile True: sys.stdout.write('x' * 10_000)"))


def test_what_was_said_before_the_end_is_not_lost(start: Start) -> None:
    with start("import os; print('{\"one\": 1}', flush=True); os.kill(os.getpid(), 9)") as tool:
        messages = tool.messages()
        assert next(messages) == {"one": 1}
        with pytest.raises(ToolFailedError):
            next(messages)


def test_a_tool_that_is_left_has_ended(start: Start) -> None:
    with start("import time; print('{}', flush=True); time.sleep(1000)") as tool:
        next(tool.messages())
    assert tool._process.returncode == -15


def test_a_tool_asked_to_stop_may_still_say_something(start: Start) -> None:
    program = """
import signal, sys, time
def stop(*_):
    print('{"so": "far"}', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print('{"ready": true}', flush=True)
time.sleep(1000)
"""
    with start(program) as tool:
        messages = tool.messages()
        assert next(messages) == {"ready": True}
        tool.stop()
        assert list(messages) == [{"so": "far"}]


def test_a_tool_ends_also_when_it_was_stopped_before_it_was_known(start: Start) -> None:
    handle = ToolHandle()
    handle.stop()
    tool = start("import time; time.sleep(600)")
    handle.take(tool)
    with pytest.raises(ToolFailedError, match="killed by signal 15"):
        said(tool)


def test_a_tool_that_does_not_listen_is_killed_through_its_handle(start: Start) -> None:
    handle = ToolHandle()
    tool = start("import signal, time; signal.signal(15, signal.SIG_IGN); print('{}', flush=True); time.sleep(600)")
    with tool:
        handle.take(tool)
        messages = tool.messages()
        assert next(messages) == {}
        handle.stop()
        handle.kill()
        with pytest.raises(ToolFailedError, match="killed by signal 9"):
            list(messages)
