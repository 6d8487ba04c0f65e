"""A disk that a test may fill."""

from __future__ import annotations

import errno
import functools
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CHUNK = b"\0" * 65536
_GREEDY = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
told = False
while True:
    for chunk in (bytes(65536), bytes(4096), bytes(1)):
        try:
            while os.write(file, chunk):
                pass
        except OSError:
            pass
    if not told:
        told = True
        print("full", flush=True)
    time.sleep(0.0005)
"""
_WHY = "a small disk needs root, or user namespaces (`unshare -rm true` must work): run the tests as root"


def on_a_small_disk(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test that mounts as it is when root, else as the root of a user and mount namespace of its own."""

    @functools.wraps(test)
    def wrapper(*arguments: Any, **fixtures: Any) -> None:
        if os.geteuid() == 0:
            test(*arguments, **fixtures)
        else:
            _run_in_a_namespace(os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0])

    return wrapper


def _run_in_a_namespace(node: str) -> None:
    assert shutil.which("unshare"), _WHY
    assert subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0, _WHY
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", node]
    inner = subprocess.run(command, capture_output=True, text=True, check=False)
    assert inner.returncode == 0, inner.stdout


class SmallDisk:
    """A tmpfs of a few megabytes. :meth:`mount` it first and :meth:`unmount` it whatever happened."""

    def __init__(self, point: Path, megabytes: int) -> None:
        self.point, self._megabytes, self._ballast = point, megabytes, point / "ballast"

    def mount(self) -> Path:
        """Where it is now."""
        self.point.mkdir()
        options = f"size={self._megabytes}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.point)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        assert mounted.returncode == 0, f"{_WHY} ({mounted.stderr.strip()})"
        return self.point

    def fill(self) -> None:
        """Leave not a byte."""
        with self._ballast.open("ab", buffering=0) as file:
            for chunk in (_CHUNK, _CHUNK[:4096], b"\0"):
                while _taken(file.fileno(), chunk):
                    pass

    def fill_last_pages(self) -> None:
        """Pages of logs that are there already take lines on a full disk too: fill them."""
        for log in self.point.rglob("std*.log"):
            with log.open("ab") as file:
                file.write(b"\n" * (-log.stat().st_size % mmap.PAGESIZE))

    @contextmanager
    def eaten(self) -> Iterator[None]:
        """Meanwhile every byte that somebody frees is taken at once."""
        command = [sys.executable, "-c", _GREEDY, str(self._ballast)]
        writer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            assert writer.stdout is not None and writer.stdout.readline() == b"full\n"
            yield
        finally:
            writer.kill()
            writer.communicate()

    def free(self) -> None:
        self._ballast.unlink()

    def unmount(self) -> None:
        if os.path.ismount(self.point):
            subprocess.run(["umount", "--lazy", str(self.point)], check=True)


def _taken(descriptor: int, chunk: bytes) -> bool:
    try:
        return os.write(descriptor, chunk) == len(chunk)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return False
        raise
