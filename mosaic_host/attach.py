"""``python -m mosaic_host.attach``: what a tunnel runs on a host. It finds the agent or starts one, points the daemon's
name at the socket that this tunnel forwards, and then passes everything between its standard streams and the agent.

One tunnel of a daemon at a time: a new one ends what the one before left, which may wait for a link that was cut.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.unix_socket import dialled, listener

READY = b"mosaic-host 1\n"
"""The first line: what comes after it is the agent's."""
_PIECE = 256 * 1024
_START_SECONDS = 30.0
_NAME = re.compile(r"[0-9a-f]{8,40}")
_SOCKET = re.compile(r"[0-9a-f]{8,40}\.s")


def main() -> None:
    options = _parsed()
    os.umask(0o077)
    home: Path = options.home
    agent = _agent(home, options.linger)
    take_over(home / "link", options.daemon, options.socket)
    os.write(1, READY)
    _pass_on(agent)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mosaic_host.attach", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="MOSAIC's folder on this host")
    parser.add_argument("--daemon", required=True, help="by what name workers know the daemon")
    parser.add_argument("--socket", required=True, help="the socket in link/ that leads to it now")
    parser.add_argument("--linger", type=float, default=600.0, help="seconds an agent stays that nobody needs")
    options = parser.parse_args()
    if not _NAME.fullmatch(options.daemon) or not _SOCKET.fullmatch(options.socket):
        parser.error("that is no name of a daemon, or of a socket")
    return options


# ---- the agent ---------------------------------------------------------------------------------------------------


def _agent(home: Path, linger: float) -> socket.socket:
    path = home / "agent" / "agent.sock"
    deadline = time.monotonic() + _START_SECONDS
    while True:
        agent = socket.socket(socket.AF_UNIX)
        try:
            agent.connect(dialled(path))
            return agent
        except OSError as error:
            agent.close()
            if time.monotonic() > deadline:
                sys.exit(f"mosaic_host: the agent does not answer at {path}: {error.strerror}")
        _start(home, path, linger)


def _start(home: Path, path: Path, linger: float) -> None:
    """Somebody else may do the same now: then that one starts it, and this one waits."""
    words = [sys.executable, "-m", "mosaic_host", "--home", str(home), "--socket", str(path)]
    started = subprocess.run(
        [*words, "--linger", str(linger), "--stay"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if started.returncode and "another agent has" not in started.stderr:
        sys.exit(started.stderr.strip() or f"mosaic_host: no agent could be started ({started.returncode})")
    if started.returncode:
        time.sleep(0.05)


# ---- the way to the daemon ---------------------------------------------------------------------------------------


def take_over(link: Path, daemon: str, name: str, ending: signal.Signals = signal.SIGTERM) -> None:
    """From here on workers that dial the daemon come through this tunnel; ``ending`` ends the one before."""
    _end_the_one_before(link / f"{daemon}.attached", ending)
    draft = link / f".{daemon}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    draft.replace(link / f"{daemon}.sock")
    for entry in link.iterdir():  # what tunnels left whose sshd is gone
        if _SOCKET.fullmatch(entry.name) and entry.name != name and listener(entry) is None:
            with suppress(FileNotFoundError):
                entry.unlink()


def _end_the_one_before(note: Path, ending: signal.Signals) -> None:
    with suppress(OSError):
        before = ProcessIdentity.parsed(note.read_text())
        if before is not None and before.is_alive() and before.pid != os.getpid():
            os.kill(before.pid, ending)
    draft = note.with_name(f"{note.name}.{os.getpid()}")
    me = ProcessIdentity.current()
    draft.write_text(f'{{"pid": {me.pid}, "start_ticks": {me.start_ticks}, "boot": "{me.boot}"}}')
    draft.replace(note)


# ---- passing on --------------------------------------------------------------------------------------------------


def _pass_on(agent: socket.socket) -> None:
    """Until one side hangs up."""
    ways = {0: agent.fileno(), agent.fileno(): 1}
    while True:
        readable, _, _ = select.select(list(ways), [], [])
        for descriptor in readable:
            try:
                data = os.read(descriptor, _PIECE)
                if not data:
                    return
                _write_all(ways[descriptor], data)
            except OSError:
                return


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main()
