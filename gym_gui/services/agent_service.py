"""Policies in the seat of a live session: loaded beside it, while the previous player keeps the seat.

The session loads a checkpoint in a process of its own (:class:`~mosaic_protocol.live.messages.HandOver`). What is here
asks for that, follows it by what the session tells, and says how it ended. No Qt: a surface feeds it with states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import require_whole, tool_for
from gym_gui.services.worker_tools import ToolError, interpreter
from mosaic_protocol.live.messages import Command, HandOver, Hello, SeatState, State
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import one_line

Done = Callable[["PolicyLoad"], None]
Background = Callable[[Callable[[], Any], Callable[[Any], None], Callable[[str], None]], None]
"""(what, done, failed): do something that takes time, and call one of the others in the caller's thread."""


def _unheard(load: PolicyLoad) -> None:
    """Nobody wants to know how it ends."""


class Session(Protocol):
    """The live session that policies are loaded into."""

    @property
    def hello_message(self) -> Hello | None: ...

    @property
    def state(self) -> State: ...

    def send(self, command: Command) -> None: ...


@dataclass
class PolicyLoad:
    """One policy on its way into the seat."""

    agent_id: str
    checkpoint_uri: str
    status: Literal["loading", "ready", "failed"] = "loading"
    reason: str = ""
    """Why it failed, in one sentence. The previous policy plays on."""
    env_id: str = ""
    """The environment that it was trained on, when that is why it failed."""
    done: Done = field(default=_unheard, repr=False)
    wish: HandOver | None = None
    """What the session was asked for; None before it was."""
    unseated: int = 0
    """How many policies had failed to take the seat when it was asked."""

    def end(self, reason: str = "", env_id: str = "") -> None:
        self.status, self.reason, self.env_id = "failed" if reason else "ready", reason, env_id
        self.done(self)


class AgentService:
    """Belongs to one thread. At most one policy is on its way at a time; the newest wish wins."""

    def __init__(
        self,
        paths: MosaicPaths,
        background: Background | None = None,
    ) -> None:
        """Without ``background`` what takes time is done at once, by the caller."""
        self._paths, self._background = paths, background or _at_once
        self._session: Session | None = None
        self.load: PolicyLoad | None = None
        """The policy that is on its way."""

    # ---- the session ---------------------------------------------------------------------------------------------

    def bind(self, session: Session | None) -> None:
        """The session that policies are for; None when there is none any more. Call it also when a session was joined
        again: what it was asked for may have been lost on the way, and asking twice does no harm."""
        self._session = session
        if session is None:
            self._settle(self.load, "the session ended")
        elif self.load is not None and self.load.wish is not None:
            session.send(self.load.wish)

    def observe(self, state: State) -> None:
        """The session told this state, which says of every policy how it ended: it has the seat, or why it has not."""
        load = self.load
        if load is None or load.wish is None:
            return
        seat, wanted = _seat(state, load.wish), load.wish.checkpoint
        if seat.checkpoint == wanted:
            self._settle(load)
        elif seat.unseated.checkpoint == wanted and seat.unseated.number > load.unseated:
            self._settle(load, one_line(seat.unseated.why))

    # ---- loading -------------------------------------------------------------------------------------------------

    def load_policy(
        self,
        agent_id: str,
        checkpoint_uri: str,
        done: Done = _unheard,
        *,
        find: Callable[[], CheckpointEntry] | None = None,
    ) -> PolicyLoad:
        """Have the session give its seat to a checkpoint: a folder, a ``file:`` URI, a name that people use, or what
        ``find`` finds in a thread.

        Returns at once; ``done`` is called when it plays or failed. Until then, and when it fails, the previous actor
        plays on.
        """
        self._settle(self.load, "another policy was asked for")
        load = self.load = PolicyLoad(agent_id, checkpoint_uri, done=done)
        if self._session is None:
            self._settle(load, "there is no session that a policy could play in: start one first")
            return load
        found = find or (lambda: TrainingRegistry(self._paths).find(_named(checkpoint_uri)))
        self._background(
            lambda: self.prepared(found()),
            lambda found: self._ask(load, *found),
            lambda sentence: self._settle(load, sentence),
        )
        return load

    def prepared(self, entry: CheckpointEntry) -> tuple[CheckpointEntry, HandOver]:
        """The command that gives a checkpoint the seat. Blocking, for any thread. Raises CheckpointsError for one that
        cannot act here."""
        require_whole(entry)
        manifest, _ = tool_for("act", entry.algo, entry.worker)
        try:
            python = str(interpreter(manifest, self._paths))
        except ToolError:
            python = ""  # the session's own will do, or it says what is missing
        return entry, HandOver("policy", checkpoint=str(entry.path), python=python)

    def _ask(self, load: PolicyLoad, entry: CheckpointEntry, wish: HandOver) -> None:
        if load is not self.load or self._session is None:
            return
        hello, state = self._session.hello_message, self._session.state
        if hello is not None and hello.is_training:
            self._settle(load, "this run trains: it can be watched, and no policy can take its seat")
            return
        if hello is not None and entry.env_id and entry.env_id != hello.env_id:
            sentence = f"{entry.id} was trained on {entry.env_id}, and the session plays {hello.env_id}"
            self._settle(load, sentence, entry.env_id)
            return
        if state.seats:  # the one that a command without a seat means may be another when the answer comes
            persons = (number for number, one in enumerate(state.seats, start=1) if one.actor == "human")
            wish = msgspec.structs.replace(wish, seat=next(persons, 1))
        load.wish, load.unseated = wish, _seat(state, wish).unseated.number
        self._session.send(wish)

    def _settle(self, load: PolicyLoad | None, reason: str = "", env_id: str = "") -> None:
        if load is not None and load is self.load:
            self.load = None
            load.end(reason, env_id)


def _seat(state: State, wish: HandOver) -> State | SeatState:
    """What is told of the seat that a wish is for."""
    return state.seats[wish.seat - 1] if 0 < wish.seat <= len(state.seats) else state


def _at_once(what: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[str], None]) -> None:
    try:
        found = what()
    except (CheckpointsError, OSError) as error:
        failed(str(error))
    else:
        done(found)


def _named(checkpoint_uri: str) -> str:
    """What the registry understands: a path or a name."""
    parts = urlsplit(checkpoint_uri)
    return str(Path(unquote(parts.path))) if parts.scheme == "file" else checkpoint_uri
