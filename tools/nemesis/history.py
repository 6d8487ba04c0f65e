"""What every client did and what came of it, in memory for the checker and as JSON lines for a person.

An operation is *invoked*, then it ends ``ok`` (the daemon said yes), ``fail`` (it said no, and nothing changed) or
``unknown`` (no answer: it may have happened, may not, and may still happen). Times are monotonic seconds since the
campaign began.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gym_gui.services.trainer.client import ClientError, NoSuchRunError, RequestRefusedError
from gym_gui.services.trainer.errors import TrainerError

SETTLING = "settling"
"""The client that ends what is left when every fault is undone."""
_REFUSED = ("RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "PERMISSION_DENIED")
_BUGS = ("INTERNAL", "UNKNOWN", "DATA_LOSS")


@dataclass
class Operation:
    """One call of one client."""

    number: int
    client: str
    action: str
    run: str
    request: str
    began: float
    detail: dict[str, Any] = field(default_factory=dict)
    ended: float | None = None
    result: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Blow:
    """One thing that the nemesis did; ``run`` when it was aimed at one."""

    fault: str
    what: str
    at: float
    run: str = ""
    seconds: float = 0.0


class History:
    """Thread-safe. Lines are on disk when :meth:`close` returns."""

    def __init__(self, path: Path) -> None:
        self.operations: list[Operation] = []
        self.blows: list[Blow] = []
        self.seen_broken: list[str] = []
        """Rules that were seen broken while the campaign ran."""
        self._began = time.monotonic()
        self._turn, self._writing = threading.Lock(), threading.Lock()
        self._file = path.open("w", encoding="utf-8")

    def begin(self) -> None:
        """The campaign begins now."""
        self._began = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._began

    @contextmanager
    def operation(
        self, client: str, action: str, run: str = "", request: str = "", **detail: Any
    ) -> Iterator[Operation]:
        """Record a call. Errors of the trainer end it; they are not raised, ``result`` says how."""
        with self._turn:
            one = Operation(len(self.operations), client, action, run, request, self.now(), detail)
            self.operations.append(one)
            self._write("invoke", asdict(one))
        try:
            yield one
            one.result = one.result or "ok"
        except (RequestRefusedError, NoSuchRunError) as error:
            one.result, one.answer = "fail", str(error)
        except TrainerError as error:
            refused = isinstance(error, ClientError) and error.status in _REFUSED
            one.result, one.answer = "fail" if refused else "unknown", str(error)
            if getattr(error, "status", "") in _BUGS:
                self.broken(f"{action} of run {run or request}: {error}")
        except OSError as error:  # a client meets the full or locked folder itself
            one.result, one.answer = "unknown", str(error)
        finally:
            one.result = one.result or "unknown"
            one.ended = self.now()
            self._write(one.result, asdict(one))

    def blow(self, fault: str, what: str, run: str = "", seconds: float = 0.0) -> None:
        one = Blow(fault, what, self.now(), run, seconds)
        self.blows.append(one)
        self._write("blow", asdict(one))

    def note(self, what: str, **facts: Any) -> None:
        self._write("note", {"what": what, "at": self.now(), **facts})

    def broken(self, sentence: str) -> None:
        """A rule was seen broken."""
        self.seen_broken.append(sentence)
        self.note(f"BROKEN: {sentence}")

    def of(self, *actions: str, run: str = "") -> list[Operation]:
        """The operations of some kinds, on one run or all."""
        return [one for one in list(self.operations) if one.action in actions and run in ("", one.run)]

    def close(self) -> None:
        self._file.close()

    def _write(self, phase: str, facts: dict[str, Any]) -> None:
        kept = {name: value for name, value in facts.items() if value not in ("", None, {})}
        line = json.dumps({"phase": phase, **kept}) + "\n"
        with self._writing:
            if not self._file.closed:
                self._file.write(line)
