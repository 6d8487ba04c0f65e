"""How the small programs of a worker speak to the process that started them: JSON objects, one a line, on stdout.

Whatever libraries print goes to stderr, so that nothing stands between two answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.worker_packages import PACKAGE_VARIABLE

REFUSED = 2


def worker_package(given: Path | None) -> Path:
    """The worker that this program works for: as a door of its own says, else as the environment does. Ends the
    process with a sentence when neither does."""
    if given is None and not os.environ.get(PACKAGE_VARIABLE):
        print(f"{PACKAGE_VARIABLE} is not set: it names the folder of the worker's package", file=sys.stderr)
        sys.exit(REFUSED)
    return given or Path(os.environ[PACKAGE_VARIABLE])


def take_over_stdout() -> TextIO:
    """The stream for answers. From here on `print` and everything else that means stdout reaches stderr."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return answers


def tell(answers: TextIO, **facts: Any) -> None:
    """Send one answer. Raises BrokenPipeError when nobody listens any more."""
    answers.write(json.dumps(facts, allow_nan=False) + "\n")


def refuse(worker: Path, sentence: object) -> int:
    """Say in one sentence why something was not done; the exit code for that. The name of the worker's package in
    front distinguishes the sentence from what libraries print."""
    print(f"{worker.name}: {one_line(str(sentence))}", file=sys.stderr, flush=True)
    return REFUSED
