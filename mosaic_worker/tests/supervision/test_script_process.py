"""The script as a process: whatever it does, its supervisor hears all of it and learns how it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.script_process import ScriptProcess

SCRIPTS = Path(__file__).parents[1] / "sample_scripts"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ScriptProcess]]:
    """Start scripts that are gone after the test."""
    started: list[ScriptProcess] = []

    def start(source: str, *arguments: str) -> ScriptProcess:
        path = tmp_path / "script.py"
        path.write_text(source)
        script = ScriptProcess.start(PlannedScript("script", path, arguments), {"MOSAIC_RUN_DIR": str(tmp_path)})
        assert script is not None
        started.append(script)
        return script

    yield start
    for script in started:
        script.kill()
        script.wait()
        script.close()


SPEAKING = """
import os, socket
link = socket.socket(fileno=int(os.environ["MOSAIC_SCRIPT_CONTROL_FD"]))
"""


def pair(start: Callable[..., ScriptProcess]) -> tuple[ScriptProcess, socket.socket]:
    """A started script whose end of the link is in the test's hand."""
    script = start("import time; time.sleep(3600)")
    script.control.close()
    script.control, theirs = socket.socketpair()
    return script, theirs


def test_a_script_gets_its_command_line_its_folder_and_its_link(start: Callable[..., ScriptProcess]) -> None:
    script = start(
        SPEAKING + "import sys, json\n"
        "run_dir = os.environ['MOSAIC_RUN_DIR']\n"
        "said = {'argv': sys.argv[1:], 'path': sys.path[0], 'name': __name__, 'run_dir': run_dir}\n"
        "link.sendall(json.dumps(said).encode() + b'\\n')\n",
        "--learning-rate=-1",
        "--notes",
        "-- x",
    )
    assert script.wait() == 0
    (said,) = script.hear_the_rest()
    folder = said["run_dir"]
    assert said == {
        "argv": ["--learning-rate=-1", "--notes", "-- x"],
        "path": folder,
        "name": "__main__",
        "run_dir": folder,
    }


@pytest.mark.parametrize(
    ("last_line", "status"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("raise ValueError('no')", 1),
        ("import os; os._exit(3)", 3),
        ("def annotated(x: no_such_name): pass", 1),  # nothing of the launcher's own file reaches the script
        ("import __main__, sys; sys.exit(4 if __main__.__file__ == __file__ == sys.argv[0] else 5)", 4),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.kill(os.getpid(), 15)", -15),
    ],
)
def test_the_exit_status_is_known_and_can_be_asked_again(
    start: Callable[..., ScriptProcess], last_line: str, status: int
) -> None:
    script = start(last_line)
    assert [script.wait(), script.wait()] == [status, status]
    script.kill()  # nobody is there any more, and nobody else is hit


def test_a_message_in_pieces_is_heard_whole(start: Callable[..., ScriptProcess]) -> None:
    script, theirs = pair(start)
    with theirs:
        theirs.sendall(b'{"at": "re')
        assert script.hear() == []
        theirs.sendall(b'ady"}\n{"at": "paused"}\n{"at"')
        assert script.hear() == [{"at": "ready"}, {"at": "paused"}]
        theirs.sendall(b': "done"}\n')
        assert script.hear() == [{"at": "done"}]


def test_lines_that_are_no_messages_are_skipped_and_the_rest_is_heard(start: Callable[..., ScriptProcess]) -> None:
    script, theirs = pair(start)
    with theirs:
        theirs.sendall(b"gibberish\n")
        assert script.hear() == []
        theirs.sendall(b'[1]\n"text"\n\xff\xfe\n\n{"at": "ready"}\n')
        assert script.hear() == [{"at": "ready"}]


def test_only_the_end_of_the_link_is_taken_for_its_end(start: Callable[..., ScriptProcess]) -> None:
    script, theirs = pair(start)
    theirs.sendall(b"gibberish\n")
    assert script.hear() == []
    theirs.close()
    assert script.hear() is None


def test_what_was_said_last_is_heard_after_the_exit(start: Callable[..., ScriptProcess]) -> None:
    """Also when it takes several reads, of which the first brings no message at all."""
    script = start(
        SPEAKING + "link.sendall(b'x' * 70_000 + b'\\n')\n"
        "for step in range(10):\n"
        '    link.sendall(b\'{"step": %d, "pad": "%s"}\\n\' % (step, b"y" * 3000))\n'
    )
    assert script.wait() == 0
    assert [message["step"] for message in script.hear_the_rest()] == list(range(10))


def test_a_grandchild_that_holds_the_link_open_does_not_hold_up_the_end(start: Callable[..., ScriptProcess]) -> None:
    script = start(
        SPEAKING + "import time\n"
        "reader, writer = os.pipe()\n"
        "if (child := os.fork()) == 0:\n    os.close(writer); os.read(reader, 1); os._exit(0)\n"
        "os.set_inheritable(writer, True)\n"
        "link.sendall(b'{\"child\": %d}\\n' % child)\n"
        "time.sleep(3600)\n"
    )
    (said,) = script.hear() or []
    held = os.pidfd_open(said["child"])
    try:
        signal.pidfd_send_signal(held, signal.SIGSTOP)
        script.kill()
        assert script.wait() == -9
        assert script.hear_the_rest() == []
    finally:
        signal.pidfd_send_signal(held, signal.SIGKILL)
        os.close(held)


def test_a_word_to_a_script_that_is_gone_is_not_an_error(start: Callable[..., ScriptProcess]) -> None:
    script = start("")
    script.wait()
    script.tell("stop")


def test_the_pidfd_becomes_readable_at_the_end(start: Callable[..., ScriptProcess]) -> None:
    script = start("input()")
    script.kill()
    assert select.select([script.pidfd], [], [], 60.0)[0]


IN_A_WARM_PROCESS = """
import json, os, sys
from pathlib import Path
from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.launcher import become_script
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_protocol.fork_server import WARM_FLAG

setattr(sys, WARM_FLAG, True)
plan = PlannedScript("script", Path(sys.argv[1]), ("--how", sys.argv[2]))
supervisor = os.getpid()
script = ScriptProcess.start(plan, {"MOSAIC_RUN_DIR": sys.argv[3]})
if script is None:
    become_script(plan.path, list(plan.arguments), supervisor)
heard = []
while (messages := script.hear()) is not None:
    heard += messages
    if {"at": "ready"} in messages:
        script.tell("go")
print(json.dumps({"heard": heard, "status": script.wait(), "forked": script._child is None}))
"""


@pytest.mark.parametrize(
    ("how", "status", "last_word"),
    [
        ("talk_gibberish", 0, "done"),
        ("fail", 1, "ready"),
        ("exit_with_status", 7, "ready"),
        ("die_of_segv", -11, "checkpoint"),
    ],
)
def test_a_forked_script_behaves_like_a_spawned_one(tmp_path: Path, how: str, status: int, last_word: str) -> None:
    command = [sys.executable, "-c", IN_A_WARM_PROCESS, str(SCRIPTS / "misbehaving.py"), how, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told = json.loads(answer.stdout.splitlines()[-1])
    assert (told["forked"], told["status"], told["heard"][-1]["at"]) == (True, status, last_word)
    if how == "fail":
        assert answer.stderr.splitlines()[-1] == "ValueError: the reward is not a number"


UNTIDY = """
import atexit, sys, threading, time
from pathlib import Path

folder = Path(__file__).parent
left_open = (folder / "left_open.txt").open("w")
left_open.write("buffered")
atexit.register(lambda: (folder / "at_exit.txt").write_text("ran"))


def late() -> None:
    time.sleep(0.2)  # so that the script ends first
    (folder / "thread.txt").write_text("finished")


threading.Thread(target=late).start()
print("the last line", end="")
sys.exit("for reasons of its own")
"""


@pytest.mark.parametrize("warm", [True, False])
def test_an_untidy_script_loses_nothing_however_it_was_started(tmp_path: Path, warm: bool) -> None:
    """Open files, exit functions, threads that still work, text without a newline, a sentence as exit status."""
    script = tmp_path / "untidy.py"
    script.write_text(UNTIDY)
    program = IN_A_WARM_PROCESS if warm else IN_A_WARM_PROCESS.replace("setattr(sys, WARM_FLAG, True)", "")
    answer = subprocess.run(
        [sys.executable, "-c", program, str(script), "any", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(answer.stdout.removeprefix("the last line"))
    assert (told["forked"], told["status"]) == (warm, 1)
    assert answer.stdout.startswith("the last line")
    assert answer.stderr == "for reasons of its own\n"
    found = {file.name: file.read_text() for file in tmp_path.glob("*.txt")}
    assert found == {"left_open.txt": "buffered", "at_exit.txt": "ran", "thread.txt": "finished"}


ON_A_FULL_DISK = """
import os, sys
from pathlib import Path
from mosaic_worker.harness.run import HarnessOrder
from mosaic_worker.supervision.launcher import become_script
from mosaic_worker.supervision.planned_script import PlannedScript
from mosaic_worker.supervision.script_process import ScriptProcess
from mosaic_protocol.fork_server import WARM_FLAG

folder, start, kind = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if start == "forked":
    setattr(sys, WARM_FLAG, True)
plan = PlannedScript("script", folder / "chatty.py", (), order=HarnessOrder("mine") if kind == "not ours" else None)
supervisor = os.getpid()
script = ScriptProcess.start(plan, {"MOSAIC_RUN_DIR": str(folder)})
if script is None:
    become_script(plan.path, [], supervisor, plan.order)
script.tell("go")
while script.hear() is not None:
    pass
os._exit(script.wait())
"""

CHATTY = """
import sys
print("a line", flush=True)
print("a warning", file=sys.stderr)
print("x" * 100_000)
print("left in the buffer", end="")
with open("reached", "w"):
    pass
"""


@pytest.mark.parametrize("start", ["forked", "spawned"])
@pytest.mark.parametrize("kind", ["ours", "not ours"])
def test_a_script_that_prints_to_a_full_disk_runs_to_its_end(tmp_path: Path, start: str, kind: str) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    (tmp_path / "outbox").mkdir()
    command = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path), start, kind]
    path = str(Path(__file__).parents[3])
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path},
            cwd=tmp_path,
            stdout=full,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert ((tmp_path / "reached").exists(), ended.returncode) == (True, 0)
