"""Answers about a worker's code, kept in memory for as long as that code is the same.

Which flags a script of the worker's has, which environments and extras are installed where it runs: each costs a
process of half a second, and a form asks all of them whenever it opens. The answer depends on the interpreter, on what
is installed in its environment, on the worker's manifest and on its sources, so these are the key: a changed file, or
a package that was installed or removed, is another question. What depends on other things besides (the data root, a
file of the user's) is not for here.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_protocol.worker_packages import fingerprint

_MOST_ANSWERS = 64
_MOST_CHARACTERS = 1_000_000
_READ_BY_PYTHON = ("PYTHON", "LD_", "PATH", "VIRTUAL_ENV", "MOSAIC_WORKER_PACKAGE")


def question(
    manifest: WorkerManifest, command: Sequence[str], surroundings: Mapping[str, str], about: object = None
) -> str:
    """What stands for a question to a worker's program: the same as long as the same code would answer it. ``about``:
    what is asked besides the words of the command, as JSON can say it."""
    variables = sorted((name, value) for name, value in surroundings.items() if name.startswith(_READ_BY_PYTHON))
    code = fingerprint(manifest.package, surroundings.get("PYTHONPATH", ""), Path(command[0]))
    asked = json.dumps([list(command), variables, code, repr(manifest), about], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()


class KeptAnswers:
    """The answers of one process, the newest :data:`_MOST_ANSWERS` of them. Any thread may call.

    Refusals and failures are not kept: the next question is asked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, str] = OrderedDict()

    def answer(
        self,
        name: Callable[[], str],
        ask: Callable[[], dict[str, Any]],
        worth_keeping: Callable[[dict[str, Any]], bool] = lambda answer: True,
    ) -> dict[str, Any]:
        """What is kept for the question that ``name`` makes, otherwise what ``ask`` returns, which is kept then. The
        caller owns the answer. Raises what ``ask`` raises."""
        asked = name()
        with self._lock:
            text = self._texts.get(asked)
            if text is not None:
                self._texts.move_to_end(asked)
        if text is not None:
            kept: dict[str, Any] = json.loads(text)
            return kept
        answer = ask()
        if worth_keeping(answer) and name() == asked:  # else the code changed while it was asked
            self._keep(asked, json.dumps(answer))
        return answer

    def forget(self) -> None:
        """Ask everything again."""
        with self._lock:
            self._texts.clear()

    def _keep(self, asked: str, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            return
        with self._lock:
            self._texts[asked] = text
            while len(self._texts) > _MOST_ANSWERS:
                self._texts.popitem(last=False)


KEPT = KeptAnswers()
"""Those of this process, for everything that asks workers."""
