"""What ``mosaic daemon answer`` does: on the machine of a daemon, tell a client elsewhere how to reach it.

The client is at the other end of stdin and stdout, which SSH carries. It asks with a JSON line, the answer is one that
begins with :data:`MARK`, since the shells over there may print what they like. The first answer comes unasked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.daemon_control import ensure_daemon, running_endpoint
from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.rpc.tokens import read_client_token
from gym_gui.services.trainer.stop_note import was_stopped
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.ssh_command import is_forwardable, socket_folder

MARK = "mosaic-link "
LINK_VERSION = 1
_LONGEST_QUESTION = 1000


def answer_all(paths: MosaicPaths, questions: IO[str], answers: IO[str]) -> None:
    """Until there are no more questions. Raises OSError when nobody reads the answers."""
    with _forwardable(paths.socket) as socket:

        def tell(question: str) -> None:
            answers.write(f"{MARK}{json.dumps(_answer(paths, question) | {'socket': str(socket)})}\n")
            answers.flush()

        tell("state")
        while line := questions.readline(_LONGEST_QUESTION):
            tell(_asked(line))


def _asked(line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:
        return ""
    return str(found.get("ask", "")) if isinstance(found, dict) else ""


def _answer(paths: MosaicPaths, question: str) -> dict[str, Any]:
    told = {
        "link": LINK_VERSION,
        "version": VERSION,
        "home": str(paths.root),
        "runs": False,
        "token": "",
        "problem": "",
    }
    try:
        runs = ensure_daemon(paths) if question == "start" else running_endpoint(paths)
        if runs is not None:
            told |= {"runs": True, "token": read_client_token(paths.token_file)}
    except WorldError as error:
        told["problem"] = str(error)
    except OSError as error:
        told["problem"] = f"cannot use {paths.root} for data: {error.strerror or error}"
    return told | {"stopped": was_stopped(paths)}


@contextmanager
def _forwardable(socket: Path) -> Iterator[Path]:
    """A path of the socket that ssh can forward: its own, or that of a link to it."""
    if is_forwardable(str(socket)):
        yield socket
        return
    with socket_folder() as folder:
        (folder / "d").symlink_to(socket)
        yield folder / "d"
