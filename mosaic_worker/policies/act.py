"""``python -m mosaic_worker.policies.act --checkpoint DIR``: a policy that answers observations with actions.

Questions arrive on stdin and are answered on stdout, in order, as :mod:`mosaic_protocol.policy_messages` says. A
question that is not valid is refused in one sentence and the next one is awaited. The process ends with its input.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.policy_messages import (
    LONGEST_LINE,
    PROTOCOL_VERSION,
    Answer,
    Greeting,
    Question,
    QuestionId,
    RawArray,
    Refusal,
)
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.answers import refuse, worker_package
from mosaic_worker.policies.policy import begin_episode
from mosaic_worker.supervision.launcher import die_with_parent

if TYPE_CHECKING:
    from mosaic_worker.policies.acting import LoadedPolicy


class BadQuestionError(ValueError):
    """A question that cannot be answered; the message is one sentence."""


class PolicyServer:
    """Answers questions about one policy. Belongs to one thread."""

    def __init__(self, loaded: LoadedPolicy, seed: int | None = None) -> None:
        self.loaded = loaded
        self.random = np.random.default_rng(seed)
        space = loaded.manifest.spaces["observation"]
        self._shape, self._dtype = tuple(space["shape"]), np.dtype(space["dtype"])
        self._questions = msgspec.json.Decoder(Question)
        self._appraise = getattr(loaded.policy, "appraise", None)

    def greeting(self) -> Greeting:
        manifest = self.loaded.manifest
        about = (manifest.algo, manifest.env_id, manifest.step, manifest.tensor_sha256, manifest.spaces)
        return Greeting(PROTOCOL_VERSION, *about, appraises=self._appraise is not None)

    def answer(self, line: bytes) -> Answer | Refusal:
        """The reply to one line; raises nothing."""
        asked: QuestionId = None
        try:
            question = self._questions.decode(line)
            asked = question.id
            observations = self._understood(question.observations)
            actions = self._choose(question, observations)
            return Answer(asked, _raw(actions), self._opinion(observations) if question.appraise is True else {})
        except msgspec.MsgspecError as error:
            return Refusal(_id_in(line), f"this is no question: {error}")
        except BadQuestionError as error:
            return Refusal(asked, str(error))
        except Exception as error:  # noqa: BLE001 - whatever the observations did to the policy, it lives on
            return Refusal(asked, f"the policy failed: {type(error).__name__}: {error}")

    def _choose(self, question: Question, observations: NDArray[Any]) -> NDArray[Any]:
        if question.seed is not None:
            if question.seed < 0:
                raise BadQuestionError(f"seed must be 0 or more, got {question.seed}")
            self.random = np.random.default_rng(question.seed)
            begin_episode(self.loaded.policy)
        return self.loaded.policy.act(observations, deterministic=question.deterministic, random=self.random)

    def _opinion(self, observations: NDArray[Any]) -> dict[str, RawArray]:
        """An opinion that fails costs the opinion, and not the action."""
        if self._appraise is None:
            return {}
        try:
            return {str(name): _raw(values) for name, values in self._appraise(observations).items()}
        except Exception as error:  # noqa: BLE001 - a policy is foreign code
            print(f"mosaic: the policy cannot say what it expects: {error}", file=sys.stderr, flush=True)
            self._appraise = None
            return {}

    def _understood(self, raw: RawArray) -> NDArray[Any]:
        try:
            dtype = np.dtype(raw.dtype)
        except TypeError:
            raise BadQuestionError(f"there is no dtype {raw.dtype[:60]!r}") from None
        if dtype.kind not in "biuf":
            raise BadQuestionError(f"observations must be numbers, got dtype {raw.dtype[:60]!r}")
        if tuple(raw.shape[1:]) != self._shape or not raw.shape or raw.shape[0] < 1:
            wanted = ["batch", *self._shape]
            raise BadQuestionError(f"observations must have the shape {wanted}, got {raw.shape}".replace("'", ""))
        expected = int(np.prod(raw.shape)) * dtype.itemsize
        if len(raw.data) != expected:
            raise BadQuestionError(f"data has {len(raw.data)} bytes, {raw.shape} of {raw.dtype} takes {expected}")
        # A copy: what arrives in a message cannot be written to, and PyTorch warns of arrays that cannot.
        return np.frombuffer(raw.data, dtype).reshape(raw.shape).astype(self._dtype)


def _raw(values: Any) -> RawArray:
    array = np.ascontiguousarray(values)
    return RawArray(array.dtype.str, list(array.shape), array.tobytes())


def serve(server: PolicyServer, questions: BinaryIO, answers: BinaryIO) -> None:
    """Greet, then answer until there are no more questions."""
    _send(answers, server.greeting())
    while line := questions.readline(LONGEST_LINE):
        if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
            while not questions.readline(LONGEST_LINE).endswith(b"\n"):
                pass
            _send(answers, Refusal(None, f"a question may have {LONGEST_LINE} bytes at most"))
        elif line.strip():
            _send(answers, server.answer(line))


def _send(answers: BinaryIO, message: msgspec.Struct) -> None:
    answers.write(msgspec.json.encode(message) + b"\n")
    answers.flush()


def _id_in(line: bytes) -> QuestionId:
    """The id of a question that could not be read, so that the refusal can name it."""
    try:
        found = msgspec.json.decode(line).get("id")
    except (msgspec.MsgspecError, AttributeError):
        return None
    return found if isinstance(found, int | str) else None


def main(worker: Path | None = None) -> int:
    """Serve a policy of a worker, given by the folder of its package; see :func:`worker_package`."""
    worker = worker_package(worker)
    parser = argparse.ArgumentParser(prog=f"{worker.name}: policy", description=__doc__, allow_abbrev=False)
    parser.add_argument("--checkpoint", type=Path, required=True, help="directory of the checkpoint")
    parser.add_argument("--seed", type=int, help="seed of what is drawn")
    parser.add_argument("--parent", type=int, help="end with this process")
    options = parser.parse_args()
    if options.parent:
        die_with_parent(options.parent)
    if sys.stdin is None or sys.stdout is None:
        return refuse(worker, "the policy reads questions from stdin and answers on stdout: one of them is closed")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print must not stand between two answers

    os.environ["OMP_NUM_THREADS"] = "1"  # networks this small are slower on more
    from mosaic_worker.policies.acting import load_acting
    from mosaic_worker.state.checkpoints import CheckpointError

    try:
        serve(PolicyServer(load_acting(options.checkpoint, worker), options.seed), sys.stdin.buffer, answers)
    except (CheckpointError, UsageError) as error:
        return refuse(worker, error)
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # nobody listens any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
