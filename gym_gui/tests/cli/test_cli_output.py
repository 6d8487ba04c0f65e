"""Output that cannot be written, input that is not there, and characters that an alphabet lacks: never a traceback."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from gym_gui.cli import entry
from gym_gui.cli.errors import ExitCode
from gym_gui.tests.support.command_line import PROJECT, CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


def shell_for(mosaic: CommandLine) -> Shell:
    def run(line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of bash in which ``mosaic`` is the command; of a pipe its status is mosaic's."""
        program = f'mosaic() {{ {shlex.quote(sys.executable)} -m gym_gui.cli "$@"; }}\n{line}\nexit ${{PIPESTATUS[0]}}'
        command = ["bash", "-c", program]
        environment = {**mosaic.environment, "PYTHONPATH": str(PROJECT)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_GUARD, check=False)

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return shell_for(CommandLine(tmp_path / "home"))


# ---- output that cannot be written -------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["checkpoints", "checkpoints --json", "--help", "zzz --json"])
def test_a_full_disk_below_the_output_is_one_sentence(shell: Shell, words: str) -> None:
    done = shell(f"mosaic {words} >/dev/full")
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.splitlines()[-1] == "mosaic: cannot write the output: No space left on device"
    assert "Traceback" not in done.stderr and "should not have happened" not in done.stderr


def test_more_output_than_a_buffer_holds_meets_a_full_disk_with_the_same_sentence(daemon: DaemonProcess) -> None:
    for number in range(12):
        daemon.submit(name=f"run-{number}", total_timesteps=1)
    done = shell_for(CommandLine(daemon.paths.root, daemon.env))("mosaic runs --json >/dev/full")
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == "mosaic: cannot write the output: No space left on device\n"


def test_an_error_that_nobody_reads_is_a_closed_pipe(shell: Shell) -> None:
    done = shell("mosaic zzz --json | true")
    assert done.returncode == ExitCode.PIPE_CLOSED
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("mosaic: there is no command 'zzz'")


@pytest.mark.parametrize(
    ("words", "code"), [("--help", 0), ("daemon status", 4), ("checkpoints --json", 0), ("zzz --json", 2)]
)
def test_without_an_output_a_command_does_what_it_does(shell: Shell, words: str, code: int) -> None:
    done = shell(f"mosaic {words} >&-")
    assert done.returncode == code
    assert "Traceback" not in done.stderr and "should not have happened" not in done.stderr


def test_without_any_stream_the_exit_code_still_says_it(shell: Shell) -> None:
    assert shell("mosaic daemon status <&- >&- 2>&-").returncode == ExitCode.DAEMON_AWAY
    assert shell("mosaic zzz 2>/dev/full").returncode == ExitCode.REFUSED


def test_a_run_that_was_submitted_without_an_output_is_followed_to_its_end(daemon: DaemonProcess) -> None:
    shell = shell_for(CommandLine(daemon.paths.root, daemon.env))
    done = shell("mosaic train count --env-id Toy-v0 --total-timesteps 5 >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert shell("mosaic runs --json >&- && mosaic logs last >&- && mosaic metrics last --csv >&-").returncode == 0


# ---- input that is not there -------------------------------------------------------------------------------------


def test_without_an_input_nobody_can_be_asked(daemon: DaemonProcess) -> None:
    shell = shell_for(CommandLine(daemon.paths.root, daemon.env))
    daemon.wait_over(daemon.submit(total_timesteps=1))
    done = shell("mosaic delete last --purge <&-")
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr == "mosaic: purging cannot be undone: add --yes to do it without being asked\n"
    done = shell("mosaic submit - <&-")
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.startswith("mosaic: ") and done.stderr.count("\n") == 1


# ---- alphabets ---------------------------------------------------------------------------------------------------


def test_a_character_that_the_output_lacks_is_written_as_its_number(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    mosaic.environment["PYTHONIOENCODING"] = "latin-1"
    shell = shell_for(mosaic)
    daemon.wait_over(daemon.submit(name="run 😀", total_timesteps=1))
    listed = shell("mosaic runs")
    assert (listed.returncode, listed.stderr) == (0, "") and r"run \U0001f600" in listed.stdout
    told = shell("mosaic runs --json")
    assert json.loads(told.stdout)["runs"][0]["name"] == "run 😀"


def test_bytes_that_are_no_text_name_no_run(daemon: DaemonProcess) -> None:
    shell = shell_for(CommandLine(daemon.paths.root, daemon.env))
    done = shell(r"mosaic show $'\xff' --json")
    assert done.returncode == ExitCode.NO_SUCH_RUN
    assert json.loads(done.stdout)["error"]["message"] == r"no run is called '\udcff': `mosaic runs` lists them"
    done = shell(r"mosaic runs --search $'\xff'")
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr == "mosaic: '\\udcff' is not text: it must be UTF-8\n"


# ---- the first moments -------------------------------------------------------------------------------------------


def test_ctrl_c_while_the_program_is_still_loading_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "gym_gui.cli.main", Interrupted("gym_gui.cli.main"))
    monkeypatch.setattr(sys, "argv", ["mosaic", "runs", "--json"])
    assert entry.main() == ExitCode.INTERRUPTED
    told = capsys.readouterr()
    assert told.err == "mosaic: interrupted\n"
    assert json.loads(told.out)["error"]["kind"] == "interrupted"


def test_the_command_begins_with_next_to_nothing_imported() -> None:
    program = "import sys; import gym_gui.cli.entry; print('click' in sys.modules, 'gym_gui.cli.main' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_home_of_a_user_who_does_not_exist_is_refused(shell: Shell) -> None:
    done = shell("mosaic --home '~no-such-user/x' daemon status")
    assert done.returncode == ExitCode.REFUSED
    assert done.stderr.startswith("mosaic: --home ~no-such-user/x names the home of a user who is not known here")
    done = shell("MOSAIC_HOME='~no-such-user/x' mosaic daemon status")
    assert done.returncode == ExitCode.REFUSED and "MOSAIC_HOME=~no-such-user/x" in done.stderr
