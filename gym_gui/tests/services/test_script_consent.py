"""Consent before a foreign script runs for the first time: once per file by its hash."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cleanrl_worker.upstream import upstream_folder, upstream_script
from gym_gui.cli.errors import ExitCode
from gym_gui.services.script_consent import (
    MOST_SCRIPT_BYTES,
    ConsentNeededError,
    ScriptConsents,
    digest,
    foreign_script,
)
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import HANG_GUARD, DaemonProcess
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import discover
from mosaic_worker.errors import UsageError
from mosaic_worker.scripts.content import SCRIPT_HASH_VARIABLE, script_bytes

pytestmark = pytest.mark.usefixtures("workers_train")

SCRIPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--speed", type=float, default=0.5)
parser.add_argument("--total-timesteps", type=int, default=5)
print("ran", parser.parse_args())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(SCRIPT)
    return file


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


# ---- the service -------------------------------------------------------------------------------------------------


def test_a_consent_is_for_a_file_as_it_is(script: Path, paths: MosaicPaths, tmp_path: Path) -> None:
    manifest, consents = discover().workers["cleanrl"], ScriptConsents(paths)
    told = {"script": str(script), "arguments": ["--speed", "0.5"], "python": "/opt/my python"}
    found = foreign_script(told, {}, manifest, paths)
    assert found is not None and found.command == f"'/opt/my python' {script} --speed 0.5"
    with pytest.raises(ConsentNeededError, match=r"mine\.py is new here"):
        consents.require(found)
    consents.allow(found)
    consents.require(found)
    copy = tmp_path / "elsewhere.py"
    copy.write_text(SCRIPT)
    assert consents.allows(foreign_script({}, {"script": str(copy)}, manifest, paths) or found)
    script.write_text(SCRIPT + "# changed\n")
    changed = foreign_script(told, {}, manifest, paths)
    assert changed is not None and not consents.allows(changed)


def test_a_consent_is_kept_privately_with_the_command(script: Path, paths: MosaicPaths) -> None:
    found = foreign_script({}, {"script": str(script)}, discover().workers["cleanrl"], paths)
    assert found is not None
    ScriptConsents(paths).allow(found)
    (kept,) = paths.script_consents.iterdir()
    assert kept.name == f"{digest(script)}.json" and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.script_consents.stat().st_mode) == 0o700
    assert json.loads(kept.read_text())["command"] == f"python {script}"


def test_a_workers_own_script_and_a_managed_one_need_no_consent(paths: MosaicPaths) -> None:
    manifest = discover().workers["cleanrl"]
    own = manifest.package_dir / "cleanrl" / "ppo.py"
    managed = paths.venvs / "cleanrl_upstream" / "lib" / "ppo.py"
    managed.parent.mkdir(parents=True)
    managed.write_text("")
    for told in ({"script": str(own)}, {"script": str(managed)}, {}):
        assert foreign_script(told, {"algo": "ppo"}, manifest, paths) is None


@pytest.mark.parametrize("layout", ["ppo.py", "cleanrl/ppo.py", "cleanrl/games/ppo.py", "games/ppo.py"])
def test_the_script_of_a_checkout_needs_consent_without_a_word_of_the_worker(
    layout: str, paths: MosaicPaths, tmp_path: Path
) -> None:
    manifest, checkout = discover().workers["cleanrl"], tmp_path / "checkout"
    script = checkout / layout
    for copy in (script, script.parent / "more" / "ppo.py"):  # one that lies deeper is not what runs
        copy.parent.mkdir(parents=True)
        copy.write_text(f"# {copy}")
    settings = {"algo": "ppo", "source": "cleanrl", "cleanrl_path": str(checkout), "env_id": "CartPole-v1"}
    found = foreign_script({}, settings, manifest, paths)
    assert found is not None and found.file == script
    assert found.file == upstream_script("ppo", upstream_folder(str(checkout), Path("python")))
    assert foreign_script({}, {**settings, "algo": "../ppo"}, manifest, paths) is None


def test_what_is_no_regular_file_is_not_read(paths: MosaicPaths, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="pipe"):
        foreign_script({}, {"script": str(pipe)}, discover().workers["cleanrl"], paths)


# ---- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def mosaic(paths: MosaicPaths) -> CommandLine:
    return CommandLine(paths.root)


def train(script: Path, *more: str) -> list[str]:
    return ["train", "--script", str(script), "--total-timesteps", "5", "--detach", *more]


def ask_at_a_terminal(mosaic: CommandLine, words: list[str], answer: bytes) -> tuple[int, str]:
    """The exit code and what was said, when a person answers."""
    ours, theirs = pty.openpty()
    process = mosaic.process(*words, stdin=theirs, stderr=subprocess.STDOUT)
    os.close(theirs)
    os.write(ours, answer)
    said, _ = process.communicate(timeout=HANG_GUARD * 2)
    os.close(ours)
    return process.returncode, said.decode()


def test_nobody_to_ask_means_that_nothing_starts(mosaic: CommandLine, script: Path, paths: MosaicPaths) -> None:
    answer = mosaic(*train(script))
    assert answer.code == ExitCode.REFUSED
    assert f"{script} has not run here before" in answer.err and "add --yes" in answer.err
    assert not paths.script_consents.exists() and not paths.registry_db.exists()


def test_a_dry_run_runs_nothing_and_asks_nothing(mosaic: CommandLine, script: Path) -> None:
    answer = mosaic("train", "--script", str(script), "--dry-run")
    assert answer.code == 0, answer.err


def test_a_person_at_a_terminal_sees_the_command_and_is_asked_once(
    mosaic: CommandLine, script: Path, paths: MosaicPaths
) -> None:
    try:
        code, said = ask_at_a_terminal(mosaic, train(script, "--", "--speed", "0.75"), b"n\n")
        assert code == ExitCode.REFUSED and "nothing was started" in said
        assert digest(script) in said and f"{script} --total-timesteps 5 --speed 0.75" in " ".join(said.split())
        code, said = ask_at_a_terminal(mosaic, train(script), b"y\n")
        assert code == 0 and "Run it?" in said and "submitted to cleanrl" in said
        again = mosaic(*train(script))
        assert again.code == 0, again.err
        script.write_text(SCRIPT + "# changed\n")
        assert mosaic(*train(script)).code == ExitCode.REFUSED
        allowed = mosaic(*train(script, "--yes"))
        assert allowed.code == 0, allowed.err
        config = mosaic("show", "last", "--config").out
        file = paths.root / "config.json"
        file.write_text(config)
        script.write_text(SCRIPT + "# changed twice\n")
        refused = mosaic("submit", str(file), "--detach")
        assert refused.code == ExitCode.REFUSED and "add --yes" in refused.err
    finally:
        mosaic("daemon", "stop")


# ---- the daemon --------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> DaemonProcess:
    """A daemon whose only CPU is taken until the file ``gate`` is there."""
    daemon = make_daemon(cpus=1).start()
    run_id = daemon.submit(name="busy", total_timesteps=3, gate=str(tmp_path / "gate"), gate_at=2)
    daemon.wait_state(run_id, "EXEC")
    return daemon


def queued_run(mosaic: CommandLine, script: Path) -> str:
    answer = mosaic(*train(script, "--yes", "--json"))
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


def test_a_script_that_changed_in_the_queue_does_not_start(busy: DaemonProcess, script: Path, tmp_path: Path) -> None:
    mosaic = CommandLine(busy.paths.root)
    run_id = queued_run(mosaic, script)
    script.write_text(SCRIPT + "print('something else')\n")
    (tmp_path / "gate").touch()
    run = busy.wait_over(run_id)
    assert run.outcome == "failed"
    command = f"mosaic show {run_id[-6:]} --config | mosaic submit - --yes"
    assert f"{script} was changed after the run was submitted" in run.reason and f"`{command}`" in run.reason
    assert not busy.processes(run_id)
    show = mosaic.process("show", run_id[-6:], "--config", stderr=subprocess.DEVNULL)
    submit = mosaic.process("submit", "-", "--yes", stdin=show.stdout)
    assert show.stdout is not None
    show.stdout.close()
    assert show.wait(HANG_GUARD) == 0
    out, err = submit.communicate(timeout=HANG_GUARD)
    assert submit.returncode == 0, (out, err)
    assert len(busy.client.runs(outcomes=["completed"]).runs) == 2


@pytest.mark.parametrize("how", ["another file behind the link", "more than is read"])
def test_another_script_in_the_place_of_the_allowed_one_does_not_start(
    busy: DaemonProcess, script: Path, tmp_path: Path, how: str
) -> None:
    mosaic, named, ran = CommandLine(busy.paths.root), tmp_path / "named.py", tmp_path / "ran"
    named.symlink_to(script)
    other = tmp_path / "other.py"
    rest = SCRIPT if how.startswith("another") else "#" * MOST_SCRIPT_BYTES
    other.write_text(f"open({str(ran)!r}, 'w')\n{rest}")
    run_id = queued_run(mosaic, named)
    named.unlink()
    named.symlink_to(other)
    (tmp_path / "gate").touch()
    run = busy.wait_over(run_id)
    assert (run.outcome, ran.exists()) == ("failed", False)
    assert run.reason.startswith("never started: ")


def test_a_script_that_is_exchanged_while_its_run_starts_is_not_executed(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SCRIPT_HASH_VARIABLE, digest(script))
    assert script_bytes(script) == SCRIPT.encode()
    script.write_text("print('another')\n")
    with pytest.raises(UsageError, match=r"mine\.py was exchanged while the run started"):
        script_bytes(script)


def test_a_name_that_would_be_obeyed_by_a_terminal_is_written_out_in_the_question(
    mosaic: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "x\x1b[3F\x1b[Jsafe.py"
    file.write_text(SCRIPT)
    code, said = ask_at_a_terminal(mosaic, train(file, "--run-name", "plain"), b"n\n")
    assert (code, "\x1b[3F" in said, "\\u001b[3F" in said) == (ExitCode.REFUSED, False, True), repr(said)


def test_a_script_that_was_allowed_as_it_is_now_starts(busy: DaemonProcess, script: Path, tmp_path: Path) -> None:
    mosaic = CommandLine(busy.paths.root)
    first = queued_run(mosaic, script)
    script.write_text(SCRIPT + "# changed\n")
    second = queued_run(mosaic, script)
    (tmp_path / "gate").touch()
    assert [busy.wait_over(run_id).outcome for run_id in (first, second)] == ["completed", "completed"]
