"""Unix sockets by path: who listens there, and a name for them that is short and plain enough to dial.

The kernel takes at most 107 bytes for the path of a socket, and gRPC reads an address as a URI, in which some
characters mean something. A path that is too long or not plain is reached through a descriptor of its folder instead.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_PATH = 107
_PLAIN = re.compile(r"[A-Za-z0-9/._+=,@-]+")
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid

_folders: dict[str, int] = {}
_folders_lock = threading.Lock()


def dialled(path: Path) -> str:
    """A name for the socket at an absolute ``path`` that the kernel and gRPC take, valid in this process and its forks.

    Raises OSError when a descriptor of the folder is needed and cannot be had.
    """
    text = str(path)
    if _is_plain(text):
        return text
    return f"/proc/self/fd/{_descriptor_of(path.parent)}/{path.name}"


@contextmanager
def dialled_once(path: Path) -> Iterator[str]:
    """Such a name while the block lasts, for a folder among many: nothing of it stays open. Raises OSError."""
    text = str(path)
    if _is_plain(text):
        yield text
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is_plain(text: str) -> bool:
    return len(os.fsencode(text)) <= LONGEST_PATH and _PLAIN.fullmatch(text) is not None


def _descriptor_of(folder: Path) -> int:
    """One descriptor for each folder, kept for good: channels dial again at any time. Replaced when the folder was, and
    when somebody closed it (a fork that cleans up)."""
    name = str(folder)
    with _folders_lock:
        kept = _folders.get(name)
        if kept is None or not _leads_to(kept, folder):
            _folders[name] = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return _folders[name]


def _leads_to(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except OSError:
        return False


def listener(path: Path) -> int | None:
    """The process that listens on a socket, None when nobody does; 0 when it cannot be seen from here (another pid
    namespace, a queue of connections that is full). A frozen process listens as well: the kernel answers for it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(dialled(path))
            return int(_PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0])
        except OSError as error:
            return 0 if error.errno == errno.EAGAIN else None
