"""What a policy process and its client say to each other: JSON objects, one a line.

The process speaks first, with a :class:`Greeting`. Then every line of its input is a :class:`Question` and gets one
line back, an :class:`Answer` or a :class:`Refusal` with the question's ``id``. Arrays travel as their raw bytes in
base64, in C order and the byte order of their ``dtype``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

PROTOCOL_VERSION = 1
LONGEST_LINE = 256 * 1024 * 1024

QuestionId: TypeAlias = int | str | None


class RawArray(msgspec.Struct, frozen=True):
    """An array without numpy: ``dtype`` as numpy spells it, such as ``float32`` or ``<f4``."""

    dtype: str
    shape: list[int]
    data: bytes


class Greeting(msgspec.Struct, frozen=True):
    """The first line of a policy process."""

    protocol: int
    algo: str
    env_id: str
    step: int
    sha256: str
    spaces: dict[str, Any]
    appraises: bool = False
    """Whether it can be asked for its opinion. A process of an earlier version does not say, and cannot."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch of observations to choose actions for."""

    observations: RawArray
    id: QuestionId = None
    deterministic: bool = True
    seed: int | None = None
    """Restart the random draws with this seed."""
    appraise: bool | msgspec.UnsetType = msgspec.UNSET
    """Have its opinion with the actions. A process that does not greet with ``appraises`` does not know the word."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The actions, one for each observation."""

    id: QuestionId
    actions: RawArray
    opinion: dict[str, RawArray] = {}
    """What the policy thinks of the observations, by the names of ``Appraiser.appraise``."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a question has no answer, in one sentence; the next one is answered."""

    id: QuestionId
    error: str
