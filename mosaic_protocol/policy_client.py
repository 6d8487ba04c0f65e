"""Asking a policy process for actions (see :mod:`mosaic_protocol.policy_messages`)."""

from __future__ import annotations

import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from mosaic_protocol.policy_messages import PROTOCOL_VERSION, Greeting, Question, QuestionId, RawArray

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_START_SECONDS = 120.0
_ANSWER_SECONDS = 30.0
_END_SECONDS = 5.0


class PolicyError(Exception):
    """A question was refused, in one sentence; the process lives on."""


class PolicyGoneError(PolicyError):
    """The process did not start, ended, or does not answer; :meth:`PolicyClient.close` is all that is left to do."""


class _Reply(msgspec.Struct, frozen=True):
    """An answer or a refusal, whichever came."""

    id: QuestionId
    actions: RawArray | None = None
    opinion: dict[str, RawArray] = {}
    error: str = ""


class Answered(NamedTuple):
    """Actions, and what the policy thinks of the observations: ``value``, ``action_values``, ``probabilities``."""

    actions: np.ndarray[Any, Any]
    opinion: dict[str, np.ndarray[Any, Any]]


class PolicyClient:
    """A policy process that this one starts. Any thread may ask; questions wait for each other.

    The process ends with :meth:`close`, and also when this one dies: its input is then at an end.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        started: Callable[[PolicyClient], None] = lambda client: None,
    ) -> None:
        """Start the process and wait until the policy is loaded; ``started`` is called before that, for somebody who
        may have to :meth:`kill` it meanwhile. Raises :class:`PolicyGoneError`."""
        self._lock = threading.Lock()
        self._count = 0
        self._received = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                list(command),
                env=None if environment is None else dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            self._errors.close()
            raise PolicyGoneError(f"cannot start {command[0]}: {error.strerror}") from error
        try:
            started(self)
            self.greeting = self._greeted()
        except BaseException:
            self.close()
            raise

    def act(
        self, observations: NDArray[Any], *, deterministic: bool = True, seed: int | None = None
    ) -> np.ndarray[Any, Any]:
        """A batch of observations (batch, *shape) to a batch of actions.

        Raises :class:`PolicyError` when they are refused, :class:`PolicyGoneError` when nobody answers.
        """
        return self._ask(observations, deterministic, seed, appraise=False).actions

    def consult(self, observations: NDArray[Any], *, deterministic: bool = True, seed: int | None = None) -> Answered:
        """As :meth:`act`, with the policy's opinion, which is empty for a policy that has none to offer."""
        return self._ask(observations, deterministic, seed, appraise=self.greeting.appraises)

    def _ask(self, observations: NDArray[Any], deterministic: bool, seed: int | None, *, appraise: bool) -> Answered:
        import numpy as np

        array = np.ascontiguousarray(observations)
        raw = RawArray(array.dtype.str, list(array.shape), array.tobytes())
        with self._lock:
            self._count += 1
            self._send(Question(raw, self._count, deterministic, seed, True if appraise else msgspec.UNSET))
            reply = self._reply(self._count)
        assert reply.actions is not None
        try:
            return Answered(_array(reply.actions), {name: _array(raw) for name, raw in reply.opinion.items()})
        except (TypeError, ValueError) as error:
            raise PolicyError(f"the policy process answered with what is no array: {error}") from error

    def kill(self) -> None:
        """End the process at once, whatever it does; any thread may. Who waits for an answer gets
        :class:`PolicyGoneError`, and :meth:`close` remains to be called by the one who started it."""
        self._process.kill()

    def close(self) -> None:
        """End the process. May be called more than once."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass  # it ended first
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> PolicyClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _greeted(self) -> Greeting:
        try:
            greeting = msgspec.json.decode(self._line(_START_SECONDS), type=Greeting)
        except msgspec.MsgspecError as error:
            raise PolicyGoneError(f"the policy process did not greet as it should: {error}") from error
        if greeting.protocol != PROTOCOL_VERSION:
            spoken = f"it speaks version {greeting.protocol}, this side {PROTOCOL_VERSION}"
            raise PolicyGoneError(f"the policy process is for another version of MOSAIC: {spoken}")
        return greeting

    def _send(self, question: Question) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(question) + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise PolicyGoneError(self._last_words()) from error

    def _reply(self, asked: int) -> _Reply:
        """The reply to one question; one that comes late, after its asker gave up, is passed over."""
        while True:
            try:
                reply = msgspec.json.decode(self._line(_ANSWER_SECONDS), type=_Reply)
            except msgspec.MsgspecError as error:
                raise PolicyGoneError(f"the policy process sent an answer that is not valid: {error}") from error
            if reply.id == asked and reply.actions is None:
                raise PolicyError(reply.error)
            if reply.id == asked:
                return reply

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise PolicyGoneError(f"the policy process did not answer within {seconds:g} s")
                received = os.read(self._process.stdout.fileno(), 1 << 20)
                if not received:
                    raise PolicyGoneError(self._last_words())
                self._received += received
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _last_words(self) -> str:
        """What the process said last before it ended."""
        if self._errors.closed:
            return "the policy process was closed"
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return "the policy process does not listen any more"
        self._errors.seek(0)
        said = [line.strip() for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return said[-1].partition(": ")[2] or said[-1] if said else f"it ended with status {self._process.returncode}"


def _array(raw: RawArray) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.frombuffer(raw.data, raw.dtype).reshape(raw.shape)
