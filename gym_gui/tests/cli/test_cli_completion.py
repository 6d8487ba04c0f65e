"""Shell completion: what Tab offers, and that it never starts a daemon or says a word."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.tests.support.command_line import PROJECT, CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.dropped_worker import dropped_worker
from mosaic_protocol.unix_socket import dialled


def offered(mosaic: CommandLine, line: str) -> list[str]:
    """What bash would offer at the end of a line."""
    return [item.partition(",")[2] for item in _items(mosaic, line)]


def kinds(mosaic: CommandLine, line: str) -> list[str]:
    """Of which kind that is: plain words, or what bash finds itself."""
    return [item.partition(",")[0] for item in _items(mosaic, line)]


def _items(mosaic: CommandLine, line: str) -> list[str]:
    words = line.split(" ")
    settings = {"_MOSAIC_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    plain = CommandLine(Path(mosaic.environment["MOSAIC_HOME"]), mosaic.environment)
    plain.environment |= settings
    answer = plain()
    assert (answer.code, answer.err) == (0, "")
    return [item for item in answer.out.splitlines() if item]


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def test_commands_options_and_words_complete(mosaic: CommandLine) -> None:
    assert offered(mosaic, "mosaic tra") == ["train"]
    assert offered(mosaic, "mosaic daemon st") == ["start", "stop", "status"]
    assert offered(mosaic, "mosaic train ppo --total") == ["--total-timesteps"]
    assert "training" in offered(mosaic, "mosaic runs --state t")
    assert "playing" in offered(mosaic, "mosaic runs --state p")
    assert offered(mosaic, "mosaic completion z") == ["zsh"]


def test_algorithms_and_workers_come_from_the_manifests(mosaic: CommandLine) -> None:
    assert "count" in offered(mosaic, "mosaic train ")
    assert offered(mosaic, "mosaic train cou") == ["count"]
    assert "toy" in offered(mosaic, "mosaic train count --worker ")
    assert offered(mosaic, "mosaic bundles install ba") == ["base"]


def test_the_environments_of_a_manifest_complete_for_its_algorithms(tmp_path: Path) -> None:
    listed = '\n[[environments]]\nname = "Ponds"\nids = ["Pond-v0", "Puddle-v0"]\n'
    folder = dropped_worker(tmp_path / "workers", name="pond", more=listed)
    manifest = folder / "pond_worker" / "worker.toml"
    manifest.write_text(manifest.read_text().replace("[algorithms.count]", "[algorithms.dive]"))
    mosaic = CommandLine(tmp_path / "home", {"MOSAIC_WORKER_PATH": str(folder)})
    assert offered(mosaic, "mosaic train dive --env-id ") == ["Pond-v0", "Puddle-v0"]
    assert offered(mosaic, "mosaic train dive --env-id Pu") == ["Puddle-v0"]
    assert "Pond-v0" not in offered(mosaic, "mosaic train ppo --env-id ")
    assert {"Pond-v0", "CartPole-v1"} <= set(offered(mosaic, "mosaic train --env-id "))


def test_without_a_daemon_completing_runs_is_silent_and_starts_none(mosaic: CommandLine, tmp_path: Path) -> None:
    assert offered(mosaic, "mosaic show ") == ["last"]
    assert offered(mosaic, "mosaic cancel x") == []
    assert not (tmp_path / "home").exists()


def test_the_socket_of_a_dead_daemon_is_no_reason_to_wait_or_to_speak(mosaic: CommandLine, tmp_path: Path) -> None:
    trainer = tmp_path / "home" / "trainer"
    trainer.mkdir(parents=True)
    (trainer / "token").write_text("token")
    left = socket.socket(socket.AF_UNIX)
    left.bind(dialled(trainer / "daemon.sock"))
    left.close()
    assert offered(mosaic, "mosaic show ") == ["last"]


def test_runs_complete_by_the_end_of_their_id_or_by_name(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    first, second = daemon.submit(name="walker", total_timesteps=1), daemon.submit(name="runner", total_timesteps=1)
    twins = [daemon.submit(name="twin", total_timesteps=1) for _ in range(2)]
    assert set(offered(mosaic, "mosaic show ")) == {"last", *(run_id[-6:] for run_id in (first, second, *twins))}
    assert offered(mosaic, f"mosaic logs {first[-6:-1]}") == [first[-6:]]
    assert first[-6:] in offered(mosaic, f"mosaic logs {first[-6:-1].lower()}")
    assert offered(mosaic, "mosaic pause runn") == ["runner"]
    assert offered(mosaic, "mosaic pause twi") == []
    assert offered(mosaic, f"mosaic --home {daemon.paths.root} show walk") == ["walker"]


def test_a_name_that_a_shell_would_split_is_completed_to_the_id(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    run_id = daemon.submit(name="mein Lauf ä 😀", total_timesteps=1)
    assert offered(mosaic, "mosaic show me") == [run_id[-6:]]


def test_only_deleted_runs_can_be_restored(daemon: DaemonProcess) -> None:
    mosaic = CommandLine(daemon.paths.root, daemon.env)
    kept, deleted = (daemon.submit(total_timesteps=1) for _ in range(2))
    for run_id in (kept, deleted):
        daemon.wait_over(run_id)
    daemon.client.delete(deleted)
    assert offered(mosaic, "mosaic restore ") == ["last", deleted[-6:]]


def test_paths_are_left_to_the_shell_and_bundles_complete(mosaic: CommandLine) -> None:
    assert kinds(mosaic, "mosaic train --script ./x") == ["file"]
    assert kinds(mosaic, "mosaic train ppo --cleanrl-path ./x") == ["dir"]
    assert kinds(mosaic, "mosaic --home ./x") == ["dir"]
    assert offered(mosaic, "mosaic train ppo --bundle ba") == ["base"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(mosaic: CommandLine, shell: str) -> None:
    answer = mosaic("completion", shell)
    assert answer.code == 0
    assert f"_MOSAIC_COMPLETE={shell}_complete" in answer.out


def test_bash_completes_with_the_printed_script(mosaic: CommandLine, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None, "this test needs bash"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mosaic").write_text(f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -m gym_gui.cli "$@"\n')
    (folder / "mosaic").chmod(0o755)
    program = (
        'eval "$(mosaic completion bash)"; COMP_WORDS=(mosaic resu); COMP_CWORD=1; '
        '_mosaic_completion mosaic; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**mosaic.environment, "PATH": f"{folder}:{mosaic.environment['PATH']}"}
    done = subprocess.run([bash, "--norc", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "resume\n"
