"""OpenSSH's command against a real sshd: what it is called with, what it leaves, and what it says when it fails."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mosaic_protocol.ssh_command import (
    CONFIG_VARIABLE,
    SshCommand,
    SshError,
    checked_destination,
    end,
    local_forward,
    posix_command,
    posix_script,
    remote_forward,
    said,
    socket_folder,
    start_tied,
)
from mosaic_protocol.tests.made_sshd import NAME, MadeSshd, made_sshd, ssh_processes_of

_SECONDS = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeSshd]:
    with made_sshd(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture
def ssh(server: MadeSshd) -> SshCommand:
    return SshCommand(NAME, config=server.config)


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.mark.parametrize(
    "text",
    [
        "server",
        "user@server",
        "u.s-er@10.0.0.1",
        "user@::1",
        "ssh://user@server:2222",
        "ssh://[fe80::1]:22",
        "a@b@host",
    ],
)
def test_a_destination_of_ssh_is_taken(text: str) -> None:
    assert checked_destination(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=touch x",
        "user@-oProxyCommand=x",
        "-l@host",
        "server; ls",
        "server\nhost",
        "ser\x1bver",
        "$(id)@server",
        "`id`",
        "user@ server",
        "ssh://server:port",
        "ssh://server/path",
        "%h",
        "h" * 400,
    ],
)
def test_what_ssh_or_a_shell_could_take_for_something_else_is_no_destination(text: str) -> None:
    with pytest.raises(SshError) as refused:
        SshCommand(text)
    assert "is no destination for SSH" in str(refused.value)
    assert str(refused.value).isprintable()


def test_the_destination_stands_behind_a_mark_that_ends_options() -> None:
    words = SshCommand("server").arguments("true")
    assert words[-3:] == ["--", "server", "true"]


def test_ssh_asks_nobody_where_there_is_no_terminal() -> None:
    assert "BatchMode=yes" in SshCommand("server").arguments()
    assert "BatchMode=no" in SshCommand("server", may_ask=True).arguments()


def test_the_environment_names_another_configuration_file(tmp_path: Path) -> None:
    file = str(tmp_path / "config")
    assert SshCommand.to("server", environ={CONFIG_VARIABLE: file}).arguments()[:3] == ["ssh", "-F", file]
    assert "-F" not in SshCommand.to("server", environ={}).arguments()


@pytest.mark.parametrize("path", ["relative", "/a:b", "/%h", "/$HOME", "/a b", "/" + "x" * 120])
def test_a_path_that_ssh_would_read_otherwise_is_not_forwarded(path: str) -> None:
    with pytest.raises(SshError, match="too long or not plain"):
        local_forward("/here", path)


def test_a_command_runs_there_word_for_word(ssh: SshCommand) -> None:
    words = ["a b", "$HOME", "it's", 'say "so"', "*", "x;y", "\\"]
    done = ssh.run(posix_command("printf", "%s\\n", *words))
    assert (done.returncode, done.stdout.decode().splitlines()) == (0, words)
    done = ssh.run(posix_script('printf "%s\\n" "$@"; exit 7', *words))
    assert (done.returncode, done.stdout.decode().splitlines()) == (7, words)


def test_what_is_given_reaches_the_command(ssh: SshCommand) -> None:
    assert ssh.run("cat", given=b"x" * 300_000).stdout == b"x" * 300_000


def test_sockets_are_forwarded_both_ways_and_only_their_owner_can_dial(ssh: SshCommand, tmp_path: Path) -> None:
    with socket_folder() as folder:
        heard, here, there = folder / "heard", folder / "here", folder / "there"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(heard))
            listening.listen()
            tunnel = start_tied(
                ssh.arguments(forwards=[local_forward(here, heard), remote_forward(there, heard)]),
                stdin=subprocess.DEVNULL,
            )
            try:
                until(lambda: here.exists() and there.exists(), "the sockets were not forwarded")
                assert stat.S_IMODE(here.stat().st_mode) == 0o600
                for door in (here, there):
                    with socket.socket(socket.AF_UNIX) as dialling:
                        until(lambda dialling=dialling, door=door: dialling.connect_ex(str(door)) == 0, "no answer")
                        dialling.sendall(b"hello")
                        met, _ = listening.accept()
                        with met:
                            assert met.recv(5) == b"hello"
            finally:
                end(tunnel)


def test_a_forward_is_made_again_where_a_killed_ssh_left_its_socket(ssh: SshCommand) -> None:
    with socket_folder() as folder:
        forward = local_forward(folder / "here", folder / "there")
        for _ in range(2):
            tunnel = start_tied(ssh.arguments("echo up; cat", forwards=[forward]), stdin=-1, stdout=-1, stderr=-1)
            assert tunnel.stdout is not None
            assert tunnel.stdout.readline() == b"up\n"
            tunnel.kill()
            end(tunnel)
            assert (folder / "here").exists()


def test_a_shared_connection_takes_another_forward(server: MadeSshd) -> None:
    with socket_folder() as folder:
        ssh = SshCommand(NAME, config=server.config, control=folder / "control")
        master = start_tied(ssh.arguments("echo up; cat", master=True), stdin=-1, stdout=-1)
        try:
            assert master.stdout is not None
            assert master.stdout.readline() == b"up\n"
            ssh.forward_now(local_forward(folder / "here", folder / "there"))
            assert stat.S_IMODE((folder / "here").stat().st_mode) == 0o600
        finally:
            end(master)
        with pytest.raises(SshError):
            ssh.forward_now(local_forward(folder / "again", folder / "there"))


# ---- ends --------------------------------------------------------------------------------------------------------

_STARTER = """
import sys, threading
from pathlib import Path
from mosaic_protocol.ssh_command import SshCommand, start_tied
def begin():
    ssh = SshCommand(sys.argv[1], config=Path(sys.argv[2]))
    start_tied(ssh.arguments("echo up; exec cat"), stdin=-1)
thread = threading.Thread(target=begin)
thread.start()
thread.join()
threading.Event().wait()
"""


def test_no_ssh_outlives_a_killed_client_and_none_ends_with_the_thread_that_asked_for_it(server: MadeSshd) -> None:
    words = [sys.executable, "-c", _STARTER, NAME, str(server.config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        (ssh,) = ssh_processes_of(client.pid)
        client.kill()
    until(lambda: not Path(f"/proc/{ssh}").exists(), "ssh was orphaned")
    until(lambda: not server.sessions(), "the session over there goes on")


def test_a_stopped_ssh_is_ended_with_its_client(server: MadeSshd) -> None:
    words = [sys.executable, "-c", _STARTER, NAME, str(server.config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"up\n"
        (ssh,) = ssh_processes_of(client.pid)
        os.kill(ssh, signal.SIGSTOP)
        client.kill()
    until(lambda: not Path(f"/proc/{ssh}").exists(), "ssh was orphaned")


def test_ssh_is_started_again_in_a_fork(ssh: SshCommand) -> None:
    assert ssh.run("echo one").stdout == b"one\n"
    child = os.fork()
    if child == 0:
        os._exit(0 if ssh.run("echo two").stdout == b"two\n" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_command_that_takes_too_long_is_given_up_and_its_ssh_ended(ssh: SshCommand) -> None:
    with pytest.raises(SshError, match="server did not answer within 1 s"):
        ssh.run("sleep 2", seconds=0.6)
    assert not ssh_processes_of(os.getpid())


def test_folders_of_killed_processes_are_removed_and_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Path("/tmp") / f"mosaic-test-{os.getpid()}"
    base.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    try:
        left = base / "mosaic-ssh-left"
        left.mkdir()
        os.utime(left, (1, 1))
        with socket_folder() as first:
            os.utime(first, (1, 1))
            assert not left.exists()
            assert stat.S_IMODE(first.stat().st_mode) == 0o700
            with socket_folder() as second:
                assert first.exists()
                assert second != first
        assert list(base.iterdir()) == []
    finally:
        base.rmdir()


def test_threads_start_ssh_at_the_same_time(ssh: SshCommand) -> None:
    heard: list[bytes] = []
    threads = [threading.Thread(target=lambda n=n: heard.append(ssh.run(f"echo {n}").stdout)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard) == [b"0\n", b"1\n", b"2\n", b"3\n"]


# ---- words -------------------------------------------------------------------------------------------------------


def test_a_changed_host_key_is_refused_with_the_sentence_of_ssh(server: MadeSshd, ssh: SshCommand) -> None:
    server.know_host(server.another_key())
    try:
        with pytest.raises(SshError) as refused:
            ssh.run("true")
    finally:
        server.know_host()
    assert "has changed and you have requested strict checking" in str(refused.value)
    assert f"{server.folder}/known_hosts:1" in str(refused.value)
    assert "Host key verification failed" in str(refused.value)
    assert "@@" not in str(refused.value)


def test_a_wrong_user_is_refused_with_the_sentence_of_ssh(server: MadeSshd) -> None:
    with pytest.raises(SshError, match="Permission denied"):
        SshCommand(f"nobody-here@{NAME}", config=server.config).run("true")


def test_a_host_that_is_not_there_is_told_with_the_sentence_of_ssh(tmp_path: Path, server: MadeSshd) -> None:
    config = tmp_path / "config"
    config.write_text("Host gone\n    HostName 127.0.0.1\n    Port 1\n")
    with pytest.raises(SshError, match=r"connect to host 127\.0\.0\.1 port 1: Connection refused"):
        SshCommand("gone", config=config).run("true")


def test_nothing_that_a_server_says_reaches_a_terminal() -> None:
    assert said(b"\x1b]0;title\x07\x1b[31mPermission denied\x1b[0m (publickey).\r\n") == "Permission denied (publickey)"
    assert said(b"") == ""
    assert said("first\nlast words\n\n") == "last words"
    assert len(said("x" * 5000)) <= 400


def test_a_machine_without_ssh_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SshError, match="there is no ssh command here: install OpenSSH's client"):
        SshCommand("server").run("true")
