"""What a live session and those who watch it say to each other: JSON objects, one a line.

The session speaks first, with a :class:`Hello`. Then it sends a :class:`State` whenever something changed, the newest
one only, and a :class:`Refused` for each command that it could not follow. Those who watch send commands at any time.

Most sessions have one seat, and a client that knows of no more works with any: the fields of a state are those of the
first seat, and a command without a seat means the person's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.mind import AgentMind
from mosaic_protocol.plain_text import one_line

PROTOCOL_VERSION = 1
LONGEST_LINE = 256 * 1024
SOCKET_NAME = "live.sock"
FASTEST = 1000.0

ActorName: TypeAlias = Literal["human", "policy", "random", "scripted"]
AdviceKind: TypeAlias = Literal["", "probability", "value"]
TellKind: TypeAlias = Literal["belief", "goal"]
LONGEST_TOLD = 2000
"""Characters that a person can tell an agent at once."""


class MessageError(ValueError):
    """A line that is no message of this protocol; the text is one sentence."""


class _Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    pass


class Hold(_Command, frozen=True, tag="hold"):
    """The keys that are down now, the one pressed last at the end. Replaces what was held before."""

    keys: tuple[str, ...]
    seat: int = 0
    """Counted from 1. 0, here and in other commands: the first seat that a person has, else the first."""


class Press(_Command, frozen=True, tag="press"):
    """A key was struck, by a screen that does not hear when it is let go (a terminal)."""

    key: str
    seat: int = 0


class Act(_Command, frozen=True, tag="act"):
    """An action itself, from a program in the person's place."""

    action: Any
    seat: int = 0


class Pause(_Command, frozen=True, tag="pause"):
    """Make no step until :class:`Go` or :class:`SingleStep`."""


class Go(_Command, frozen=True, tag="go"):
    """Go on after :class:`Pause`."""


class SingleStep(_Command, frozen=True, tag="step"):
    """Make one step and pause."""


class Speed(_Command, frozen=True, tag="speed"):
    """How many times as fast as the environment is meant to run; 0 as fast as it can."""

    times: float


class Restart(_Command, frozen=True, tag="restart"):
    """Begin another episode: with the same seed, the next one, or this one."""

    seed: Literal["same", "next"] | int = "next"


class HandOver(_Command, frozen=True, tag="hand_over"):
    """Give the seat to an actor. A policy needs a ``checkpoint``, a scripted actor a ``script``."""

    actor: ActorName
    checkpoint: str = ""
    """The folder of the checkpoint."""
    python: str = ""
    """The interpreter that has what the policy needs. Empty: the session's own."""
    deterministic: bool = True
    script: str = ""
    """A JSON file with a list of actions."""
    seat: int = 0


class Advise(_Command, frozen=True, tag="advise"):
    """Have a policy watch: it says what it would do and leaves the seat to the person. Without a checkpoint the one
    that watches is sent away."""

    checkpoint: str = ""
    python: str = ""
    seat: int = 0


class Undo(_Command, frozen=True, tag="undo"):
    """Go back so many steps of the episode. What is undone stays recorded, as a branch."""

    steps: int = 1


class Keys(_Command, frozen=True, tag="keys"):
    """Change keys while playing: ``{"a": 0, "left+space": 3, "x": null}``; null unbinds a key. A new :class:`Hello`
    follows."""

    changes: dict[str, Any]


class Tell(_Command, frozen=True, tag="tell"):
    """Tell an agent that trains something, as a person: a belief, or a goal to pursue, as AgentSpeak writes it."""

    text: str
    """Such as ``slippery`` or ``rest(5)``."""
    kind: TellKind = "belief"
    agent: str = ""
    """Its name; empty: every agent of the run."""


class End(_Command, frozen=True, tag="end"):
    """End the session; its run completes."""


Command: TypeAlias = (
    Hold | Press | Act | Pause | Go | SingleStep | Speed | Restart | HandOver | Advise | Undo | Keys | Tell | End
)


class _Told(msgspec.Struct, frozen=True, tag_field="at"):
    pass


class Hello(_Told, frozen=True, tag="hello"):
    """The first line of a session. It comes again when the keys were changed."""

    env_id: str
    family: str
    key_map: KeyMap
    waits: bool
    """Whether the environment waits for the person's move; any other one runs by a clock."""
    fps: float
    settings: dict[str, Any] = {}
    protocol: int = PROTOCOL_VERSION
    action_names: tuple[str, ...] = ()
    """Each action in words, in the order of :attr:`State.advice`; empty where actions are not counted."""
    seats: tuple[str, ...] = ()
    """The names of the seats, which are the ``agent_id`` of their steps; empty where there is one."""
    is_training: bool = False
    """Whether it is a run that trains: it can be watched, and takes no command but :class:`Tell`."""
    agents: tuple[str, ...] = ()
    """The names of the agents that can be told something; empty where there are none."""


class Unseated(msgspec.Struct, frozen=True):
    """A checkpoint that was to have the seat and did not get it, or had it and could not go on. Every hand-over to a
    policy comes to an end that is told: :attr:`State.checkpoint` names it, or this does."""

    number: int = 0
    """How many there were. The same checkpoint may fail again, for the same reason."""
    checkpoint: str = ""
    why: str = ""
    """In one sentence."""


class SeatState(msgspec.Struct, frozen=True):
    """One of several seats that play side by side; its fields mean what those of :class:`State` do."""

    name: str
    episode: int = 0
    step: int = 0
    total: float | None = 0.0
    actor: str = "human"
    checkpoint: str = ""
    unseated: Unseated = Unseated()
    action: str = ""
    acted: str = ""
    loading: str = ""
    waiting: bool = False
    over: str = ""
    best: float | None = None
    problem: str = ""
    text: str = ""
    frames: str = ""
    advice: tuple[float, ...] = ()
    advice_kind: AdviceKind = ""
    prefers: str = ""
    value: float | None = None
    advisor: str = ""


class Round(msgspec.Struct, frozen=True):
    """One seed that every seat played to the end."""

    seed: int
    totals: tuple[float | None, ...]
    """The return of each seat."""
    steps: tuple[int, ...]


class State(_Told, frozen=True, tag="state"):
    """Where the session is."""

    steps: int = 0
    """Steps recorded in this session."""
    episode: int = 0
    step: int = 0
    """Steps in the episode."""
    total: float | None = 0.0
    """The return so far; None where it is no finite number."""
    seed: int = 0
    actor: str = "human"
    checkpoint: str = ""
    """The folder of the checkpoint that has the seat; empty where no policy has."""
    unseated: Unseated = Unseated()
    """The last checkpoint that did not get the seat, or lost it."""
    action: str = ""
    """The last action, in words."""
    acted: str = ""
    """Who took it: somebody else may have got the seat since. Empty before the first one."""
    loading: str = ""
    """The checkpoint that is being loaded to take the seat; the actor of before plays on meanwhile."""
    paused: bool = False
    held: bool = False
    """Whether the run itself is paused."""
    waiting: bool = False
    """Whether the next step waits for the person."""
    over: str = ""
    """How the episode ended; empty while it goes on."""
    speed: float = 1.0
    episodes: int = 0
    """Episodes that were played to their end."""
    best: float | None = None
    """The highest return among them."""
    problem: str = ""
    """What went wrong last, in one sentence."""
    text: str = ""
    """The environment drawn with characters, where it can be."""
    frames: str = ""
    """The file of pictures (:mod:`.frames`); empty where there are none."""
    advisor: str = ""
    """The policy that plays, or watches a person play, in words; empty where none does."""
    advice: tuple[float, ...] = ()
    """What it thinks of each action of the coming step; empty until it has thought, and where actions are not
    counted."""
    advice_kind: AdviceKind = ""
    """Whether these are probabilities, or the returns it expects."""
    prefers: str = ""
    """What it would do, in words."""
    value: float | None = None
    """The return it expects from here on."""
    can_undo: int = 0
    """Steps that can be undone."""
    seats: tuple[SeatState, ...] = ()
    """Every seat, where there are several. They are at the same step of the same seed; one that ended waits."""
    rounds: tuple[Round, ...] = ()
    """The last rounds of several seats, the newest at the end."""
    mean: float | None = None
    """Of a run that trains: the mean return of its last episodes."""
    rate: float | None = None
    """Of a run that trains: environment steps a second."""
    mind: tuple[AgentMind, ...] | None = None
    """What each agent of the run believes, wants and learned; None where agents have no mind to look into."""


class Refused(_Told, frozen=True, tag="refused"):
    """A command that was not followed, and why."""

    why: str


Told: TypeAlias = Hello | State | Refused

_encoder = msgspec.json.Encoder()
_commands = msgspec.json.Decoder(Command)
_told = msgspec.json.Decoder(Told)


def socket_of(run_directory: Path) -> Path:
    """Where the session of a run listens."""
    return run_directory / SOCKET_NAME


def line_of(message: Command | Told) -> bytes:
    return _encoder.encode(message) + b"\n"


def read_command(line: bytes) -> Command:
    """Raises :class:`MessageError`."""
    try:
        return _checked(_commands.decode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"this is no command: {one_line(str(error))}") from None


def read_told(line: bytes) -> Told:
    """Raises :class:`MessageError`."""
    try:
        told: Told = _told.decode(line)
        return told
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MessageError(f"this is no message of a session: {one_line(str(error))}") from None


def _checked(command: Command) -> Command:
    match command:
        case Speed(times=times) if not 0 <= times <= FASTEST:
            raise MessageError(f"speed must be between 0 (as fast as it can) and {FASTEST:g}, got {times:g}")
        case HandOver(actor="policy", checkpoint=""):
            raise MessageError("to hand over to a policy, name its checkpoint")
        case HandOver(actor="scripted", script=""):
            raise MessageError("to hand over to a script, name its file")
        case Restart(seed=int(seed)) if not 0 <= seed < 2**31:
            raise MessageError(f"seed must be between 0 and {2**31 - 1}, got {seed}")
        case Tell(text=text) if not text.strip():
            raise MessageError("there is nothing to tell: write a belief or a goal, such as slippery")
        case Tell(text=text) if len(text) > LONGEST_TOLD:
            raise MessageError(f"an agent can be told {LONGEST_TOLD:,} characters at once, got {len(text):,}")
        case Undo(steps=steps) if steps < 1:
            raise MessageError(f"undo takes 1 step or more, got {steps}")
    return command
