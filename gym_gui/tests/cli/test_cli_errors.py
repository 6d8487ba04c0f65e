"""Exit codes, sentences instead of tracebacks, and what a bad command line leads to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.cli.commands import bundles as bundles_module
from gym_gui.cli.commands import doctor as doctor_module
from gym_gui.cli.errors import ExitCode, code_for_outcome, translated, wants_json
from gym_gui.services.trainer.bundles.manager import BundleInfo
from gym_gui.services.trainer.client import ClientError
from gym_gui.services.trainer.errors import RefusedError, WorldError
from gym_gui.tests.support.command_line import CommandLine
from mosaic_protocol.states import Outcome


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def test_every_outcome_has_an_exit_code_of_its_own() -> None:
    codes = {outcome: int(code_for_outcome(outcome)) for outcome in Outcome}
    assert codes == {"completed": 0, "failed": 1, "canceled": 5, "timed_out": 6, "lost": 7}
    assert code_for_outcome("invented later") == ExitCode.FAILED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError("no run", "NOT_FOUND"), 3),
        (ClientError("refused", "INVALID_ARGUMENT"), 2),
        (ClientError("wrong state", "FAILED_PRECONDITION"), 2),
        (ClientError("no token", "UNAUTHENTICATED"), 2),
        (ClientError("gone", "UNAVAILABLE"), 4),
        (ClientError("slow", "DEADLINE_EXCEEDED"), 4),
        (ClientError("disk", "RESOURCE_EXHAUSTED"), 1),
        (ClientError("busy", "ABORTED"), 1),
        (RefusedError("no"), 2),
        (WorldError("no"), 1),
    ],
)
def test_an_error_of_the_trainer_has_an_exit_code(error: Exception, code: int) -> None:
    known = translated(error)
    assert known is not None
    assert known.code == code


def test_a_bug_is_not_taken_for_an_expected_failure() -> None:
    assert translated(KeyError("x")) is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "there is no command 'trian'; did you mean 'train'?"),
        (["daemon", "stat"], "there is no command 'stat'; did you mean 'start'?"),
        (["zzz"], "there is no command 'zzz'; `mosaic --help` lists what there is"),
        (["runs", "--sate", "x"], "there is no option '--sate'; did you mean '--state'?"),
        (["runs", "--state", "trainig"], "'trainig' is no state; did you mean 'training'?"),
        (["runs", "--state", "failed"], "'failed' is no state: use --outcome failed"),
        (["runs", "--outcome", "fialed"], "'fialed' is no outcome; did you mean 'failed'?"),
        (["runs", "--limit", "0"], "--limit must be at least 1, got 0"),
        (["runs", "--limit", "1e12"], "--limit must be at most 2,147,483,647, got 1e12"),
        (["metrics", "last", "--last", "1e12"], "--last must be at most 2,147,483,647, got 1e12"),
        (["logs", "last", "--tail", "1e12"], "--tail must be at most 2,147,483,647, got 1e12"),
        (["daemon", "start", "--cpus", "1e12"], "--cpus must be at most 2,147,483,647, got 1e12"),
        (
            ["train", "ppo", "--total-timesteps", "9" * 400],
            "--total-timesteps must be at most 1,000,000,000,000",
        ),
        (["train", "ppo", "--seed", "9" * 20], f"--seed must be at most 4,294,967,295, got {'9' * 20}"),
        (["train", "ppo", "--max-wallclock-minutes", "x"], "--max-wallclock-minutes must be a number of minutes, got"),
        (["runs", "--home", "x"], "--home stands before the command: `mosaic --home DIR runs`"),
        (["runs", "--limit"], "option '--limit' requires an argument. See `mosaic runs --help`."),
        (["bundles", "list", "--json=x"], "option '--json' does not take a value. See `mosaic bundles list --help`."),
        (["flags"], "missing argument 'ALGO'. See `mosaic flags --help`."),
        (["train"], "missing argument 'ALGO'. See `mosaic train --help`."),
        (["train", "nix", "--env-id", "E"], "there is no algorithm 'nix'. Choose from: "),
        (["train", "--script", "~no-such-user/x.py"], "a path begins with the home of a user who is not known here"),
        (["eval", "last", "--deterministic", "--sampled"], "choose one of --deterministic, --sampled and --both"),
        (["show"], "missing argument 'RUN'. See `mosaic show --help`."),
        (["completion", "tcsh"], "invalid value for 'SHELL': 'tcsh' is not one of 'bash', 'zsh', 'fish'. See"),
        (["metrics", "last", "--csv", "--json"], "choose one of --csv, --parquet, --json, --tensorboard and --archive"),
        (["bundles", "install", "bsae"], "there is no bundle 'bsae'; did you mean 'base'?"),
        (["daemon", "start", "--host", ""], "host is empty"),
        (["daemon", "start", "--tls-cert", "/nope"], "invalid value for '--tls-cert': File '/nope' does not exist"),
        (["tell", "last", "+slippery"], "the sign '+' belongs into plans: tell 'slippery' here"),
        (["tell", "last", "!rest(5)."], "the sign '!' belongs into plans: tell --goal 'rest(5)' here"),
    ],
)
def test_a_wrong_command_line_is_refused_with_one_helpful_sentence(
    mosaic: CommandLine, tmp_path: Path, words: list[str], sentence: str
) -> None:
    answer = mosaic(*words)
    assert answer.code == ExitCode.REFUSED
    assert answer.err.startswith(f"mosaic: {sentence}")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_with_json_an_error_is_an_object_on_stdout_and_a_sentence_on_stderr(mosaic: CommandLine) -> None:
    answer = mosaic("runs", "--sate", "x", "--json")
    message = "there is no option '--sate'; did you mean '--state'?"
    assert answer.json == {"error": {"message": message, "kind": "refused", "exit_code": 2}}
    assert answer.err == f"mosaic: {message}\n"


def test_json_behind_the_double_dash_is_the_scripts() -> None:
    assert wants_json(["train", "ppo", "--json"])
    assert not wants_json(["train", "ppo", "--", "--json"])


def test_a_bug_gives_a_sentence_and_keeps_its_traceback_in_a_file(
    mosaic: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "bundle_manager", lambda paths: 1 / 0)
    answer = mosaic("doctor", "--json")
    assert answer.code == ExitCode.FAILED
    assert "Traceback" not in answer.err
    (file,) = (tmp_path / "home" / "logs" / "cli").iterdir()
    assert str(file) in answer.err
    assert str(file) in answer.json["error"]["message"]
    assert "ZeroDivisionError" in file.read_text()


def test_a_bug_is_kept_below_the_home_that_was_named(
    mosaic: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "bundle_manager", lambda paths: 1 / 0)
    mosaic("--home", str(tmp_path / "other"), "doctor")
    assert list((tmp_path / "other" / "logs" / "cli").iterdir())
    assert not (tmp_path / "home").exists()


def test_debug_shows_the_traceback(mosaic: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "bundle_manager", lambda paths: 1 / 0)
    mosaic.environment["MOSAIC_DEBUG"] = "1"
    assert "ZeroDivisionError" in mosaic("doctor").err


def test_a_home_that_cannot_be_used_is_reported_as_such(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    answer = CommandLine(file)("runs")
    assert answer.code == ExitCode.DAEMON_AWAY
    assert f"cannot use {file} for data" in answer.err


def test_the_cockpit_without_a_screen_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    answer = CommandLine(tmp_path / "home")("gui")
    assert answer.code == ExitCode.FAILED
    assert "there is no screen here" in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize("words", [(), ("--help",), ("train", "--help"), ("daemon",), ("daemon", "start", "--help")])
def test_help_goes_to_stdout(mosaic: CommandLine, words: tuple[str, ...]) -> None:
    answer = mosaic(*words)
    assert answer.code == 0
    assert answer.out.startswith("Usage: mosaic")


@pytest.mark.parametrize(
    ("lines", "unwanted"),
    [
        ([["--help"], ["--version"]], {"grpc", "google", "pydantic", "torch", "gymnasium", "numpy"}),
        # Its options come from the manifests of the workers, and reading those takes pydantic.
        ([["train", "--help"]], {"grpc", "google", "torch", "gymnasium", "numpy"}),
    ],
)
def test_help_and_version_import_nothing_heavy(lines: list[list[str]], unwanted: set[str]) -> None:
    program = (
        "import json, sys; from gym_gui.cli.main import main\n"
        f"codes = [main(words) for words in {lines!r}]\n"
        "print(json.dumps([codes, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    codes, modules = json.loads(done.stdout.splitlines()[-1])
    assert codes == [0] * len(lines)
    assert not unwanted & set(modules)


def test_a_reader_that_leaves_early_gets_no_complaint(mosaic: CommandLine) -> None:
    process = mosaic.process("--help")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr:
        complaint = process.stderr.read()
    assert (process.wait(60), complaint) == (ExitCode.PIPE_CLOSED, b"")


@pytest.mark.parametrize("group", [(), ("daemon",), ("bundles",), ("checkpoints",), ("sweep",)])
def test_help_fits_eighty_columns_and_cuts_no_sentence(mosaic: CommandLine, group: tuple[str, ...]) -> None:
    mosaic.environment["COLUMNS"] = "80"
    _, *lines = mosaic(*group, "--help").out.splitlines()
    assert not [line for line in lines if line.endswith("...") or len(line) > 80]


def test_a_bundle_that_this_interpreter_has_is_not_built(
    mosaic: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Manager:
        def list(self) -> list[BundleInfo]:
            return [BundleInfo("base", "current", tmp_path / "base.txt", Path(sys.executable), ())]

        def install(self, name: str, say: object) -> Path:
            return tmp_path / name

    monkeypatch.setattr(bundles_module, "bundle_manager", lambda paths: Manager())
    answer = mosaic("bundles", "install", "base")
    assert answer.code == 0
    assert answer.out.startswith("base needs no environment of its own: this interpreter has all of it.")
    assert mosaic("bundles", "install", "base", "--json").json == {"name": "base", "directory": None}
    assert "base is ready" in mosaic("bundles", "install", "base", "--force").out
