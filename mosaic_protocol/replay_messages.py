"""What a replay process and its client say to each other: JSON objects, one a line.

The process speaks first, with :class:`Ready`. It checks the episode in its free time and tells how far it is with
:class:`Checked`. Each :class:`Seek` is answered with one :class:`Shown`, except where a newer one came meanwhile: the
latest wins. Pictures are in a file that both map (:mod:`mosaic_protocol.live.frames`). The process ends with its input.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from mosaic_protocol.plain_text import one_line

PROTOCOL_VERSION = 1
LONGEST_LINE = 256 * 1024


class ReplayMessageError(ValueError):
    """A line that is no message of this protocol; the text is one sentence."""


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    pass


class Seek(_Asked, frozen=True, tag="seek"):
    """Stand before the step of this number, or with the number of steps behind the last one, and draw what is there."""

    place: int


class Export(_Asked, frozen=True, tag="export"):
    """Film the episode into a file that ends in .mp4 or .gif. One at a time."""

    file: str


class CancelExport(_Asked, frozen=True, tag="cancel_export"):
    """Give up the film that is being made; nothing of it is left."""


Asked: TypeAlias = Seek | Export | CancelExport


class _Told(msgspec.Struct, frozen=True, tag_field="at"):
    pass


class Ready(_Told, frozen=True, tag="ready"):
    """The first line: the environment is made and stands at the beginning."""

    env_id: str
    steps: int
    """Places are 0 to this number. Of a clip, the last one is its last picture."""
    fps: float
    episode: int = 0
    seed: int | None = None
    action_names: tuple[str, ...] = ()
    """Actions in words, where the environment knows them."""
    protocol: int = PROTOCOL_VERSION


class Differing(msgspec.Struct, frozen=True):
    """The first thing that is not as it was recorded."""

    place: int
    number: int
    """The same step within its run."""
    what: str
    recorded: str
    came: str
    sentence: str


class Checked(_Told, frozen=True, tag="checked"):
    """How far it is, and how many steps were found to be as recorded."""

    verified: int
    """Steps that do not differ, and of which the observation or the reward was recorded, and compared."""
    steps: int
    done: bool = False
    difference: Differing | None = None
    repeats_itself: bool | None = None
    """Of a difference: whether the environment agrees with itself. None while nothing differs."""
    other_versions: dict[str, list[str | None]] = {}
    """Of a difference: what was installed when it was recorded, and now, where that is known and not the same."""
    checked: int = 0
    """Steps that do not differ as far as they were recorded: more than ``verified`` where nothing was of some."""
    observations: int = 0
    """Verified steps whose observation was compared."""
    rewards: int = 0
    """Verified steps whose reward was compared."""
    stopped: str = ""
    """Why the rest cannot be checked: the environment broke."""


class Shown(_Told, frozen=True, tag="shown"):
    """Where the replay stands."""

    place: int
    """What was asked for, or the nearest place that there is."""
    reached: int
    """Where the simulation got to: less than ``place`` where it left the recording, or broke."""
    frames: str = ""
    """The file of pictures; empty where there is none of this place."""
    source: str = ""
    """``simulation``, or ``clip`` for a picture that was recorded; empty without a picture."""
    why: str = ""
    """Why there is no picture, or no simulated one."""


class Exporting(_Told, frozen=True, tag="exporting"):
    """How far a film is."""

    frames: int
    of: int


class Exported(_Told, frozen=True, tag="exported"):
    """A film is there; or it is not, and ``why`` says it."""

    file: str
    frames: int = 0
    cut: bool = False
    """Whether it ends early, at the step that differs."""
    why: str = ""


class Trouble(_Told, frozen=True, tag="trouble"):
    """What the environment hangs in, in one sentence; an empty one when it came back."""

    why: str


Told: TypeAlias = Ready | Checked | Shown | Exporting | Exported | Trouble

_asked = msgspec.json.Decoder(Asked)
_told = msgspec.json.Decoder(Told)


def line_of(message: Asked | Told) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def read_asked(line: bytes) -> Asked:
    """Raises :class:`ReplayMessageError`."""
    found: Asked = _read(_asked, line)
    return found


def read_told(line: bytes) -> Told:
    """Raises :class:`ReplayMessageError`."""
    found: Told = _read(_told, line)
    return found


def _read(decoder: msgspec.json.Decoder[Any], line: bytes) -> Any:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise ReplayMessageError(f"this is no message of a replay: {one_line(str(error))}") from None
