"""How the small programs of this worker speak to the process that started them: JSON objects, one a line, on stdout.

Whatever libraries print goes to stderr, so that nothing stands between two answers.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

REFUSED = 2


def take_over_stdout() -> TextIO:
    """The stream for answers. From here on `print` and everything else that means stdout reaches stderr."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return answers


def tell(answers: TextIO, **facts: Any) -> None:
    """Send one answer. Raises BrokenPipeError when nobody listens any more."""
    answers.write(json.dumps(facts, allow_nan=False) + "\n")


def refuse(sentence: object) -> int:
    """Say in one sentence why something was not done; the exit code for that."""
    print(f"cleanrl_worker: {' '.join(str(sentence).split())}", file=sys.stderr, flush=True)
    return REFUSED
