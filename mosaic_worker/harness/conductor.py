"""Obeys the supervisor on behalf of a script that does not know it has one.

The script's loop is wrapped (see :mod:`mosaic_worker.harness.instrument`), and the top of each turn is where requests
are met and checkpoints taken: everything is consistent there. When no turn comes for a moment, a thread knocks with a
signal, whose handler runs in the script's own thread between two instructions: there a script can be held, or ended
when it will not come to its next turn soon. Everything but the knocking happens in the script's thread.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sized
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any

from mosaic_protocol.headline import LENGTH_TAG, RETURN_TAG, SPS_TAG
from mosaic_worker.errors import UsageError
from mosaic_worker.harness.belongings import Belongings, Marks, marks_of
from mosaic_worker.harness.carried import LoopNames
from mosaic_worker.harness.namespaces import Namespace, variables_of
from mosaic_worker.harness.source import ScriptSource
from mosaic_worker.training.session import TrainingSession

KNOCK_SIGNAL = signal.SIGRTMIN + 7
"""Not one of those that people's scripts use for themselves."""
_KNOCK_SECONDS = 0.1
_PATIENCE_SECONDS = 1.0
"""How long a script that is to stop may take to finish the turn it is in."""
_LONG_TURN_SECONDS = 0.005
"""Turns that take longer have their counters noted, should they be cut short."""
_SPEED_SECONDS = 1.0
"""How often the speed is recorded of a script that gives rows and does not tell it itself."""
_COUNTERS = ("global_step", "total_updates")
"""What scripts call the number of steps or updates so far, where they count them beside their loop."""
USAGE_STATUS = 2


@dataclass(frozen=True)
class Settings:
    """What is wanted of a run under the harness."""

    algo: str
    checkpoint_every: int = 100_000
    """Steps; 0 for the last one only."""
    checkpoint_keep: int = 3
    resume: str | None = None
    warm_start: str | None = None
    total: int | None = None
    """Steps that it is going to make, where the script does not say that by a name of everybody's."""
    per_turn: int | None = None
    """Steps that one turn of its loop makes; None when nobody knows."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What checkpoints say beside the script's own arguments."""


class Ending(SystemExit):
    """Ends the script from within, past handlers of ordinary errors. Its code is the exit status."""


class Conductor:
    """One run of one script."""

    def __init__(
        self, session: TrainingSession, source: ScriptSource, settings: Settings, checkpoints_offered: bool
    ) -> None:
        self._session, self._settings = session, settings
        self._keeps = checkpoints_offered
        loop = source.loop
        self._names = LoopNames.of(loop, source.tree) if loop else LoopNames()
        self._has_loop = loop is not None
        self._counts = loop is not None and "step" in loop.variable
        self._globals: MutableMapping[str, Any] = {}
        self._frame: FrameType | None = None
        self._step, self._turn = 0, 0
        self._row: dict[str, float] = {}
        self._row_step = 0
        self._next_checkpoint = settings.checkpoint_every or math.inf
        self._turn_began = 0.0
        self._counters: dict[str, Any] = {}
        self._begun = self._busy = self._over = self._resumed = False
        self._stop_by: float | None = None
        self._told: set[str] = set()
        self._resumed_at = -1
        self._made: Marks = {}
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._speed_told = 0.0

    # ---- what the script calls without knowing it ------------------------------------------------------------------

    def loop(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items of the script's loop, from where it is to go on."""
        self._enter(sys._getframe(1))
        rest = items[self._turn :] if isinstance(items, range) else islice(items, self._turn, None)
        for item in rest:
            self._top(item if self._counts else None)
            yield item
            self._turn += 1
        self._finish_loop(self._made_in_all(items))

    def enter(self) -> bool:
        """Ahead of the condition of a ``while`` loop; always true."""
        if self._frame is None:
            self._enter(sys._getframe(1))
        else:
            self._turn += 1
        return True

    def turn(self, condition: Any) -> Any:
        """The condition of a ``while`` loop, on its way."""
        if condition:
            self._top(None)
        else:
            self._finish_loop(None)
        return condition

    def heard(self, tag: str, value: Any, step: Any) -> None:
        """A scalar was given to TensorBoard."""
        try:
            # item(): a tensor that is part of a graph, or an array of one number, is no float without a warning.
            number = float(value.item() if hasattr(value, "item") else value)
            at = self._step if step is None else int(step)
        except (TypeError, ValueError):
            return  # another library's writer may take more than numbers
        self._busy = True
        if at != self._row_step or tag in self._row:
            self._flush()
        if tag == SPS_TAG and self._resumed:
            # Scripts divide the whole count by the time of this process alone.
            number = self._session.steps_per_second(at)
        self._row_step = at
        self._row[tag] = number
        if not self._counts:
            self._step = max(self._step, at)
        if not math.isfinite(number) and _is_loss(tag):
            self._fail(f"{tag} became {number} at step {at:,}")
        self._busy = False

    def row(self, values: Mapping[str, Any], step: int | None) -> None:
        """Values were given to a library that a door stands for; see :mod:`mosaic_worker.harness.row_tap`."""
        found = {tag: number for tag, value in values.items() if (number := _number(value)) is not None}
        at = self._counted_step() if step is None else int(step)
        self._busy = True
        self._step = max(self._step, at)
        for tag, number in found.items():
            if not math.isfinite(number) and tag.endswith("loss"):
                self._fail(f"{tag} became {number} at step {at:,}")
        returns = self._add_episodes(found)
        self._add_speed(found)
        self._session.scalars(at, found, returns)
        self._busy = False
        if self._session.is_asked:
            self._attend_within_a_turn()

    def episode(self, total: float, length: int) -> None:
        """An episode ended in an environment that a door made; the next row tells it."""
        self._returns.append(total)
        self._lengths.append(length)

    def _add_episodes(self, found: dict[str, float]) -> list[float] | None:
        returns, lengths = self._returns, self._lengths
        if not returns:
            return None
        self._returns, self._lengths = [], []
        found.setdefault(RETURN_TAG, sum(returns) / len(returns))
        found.setdefault(LENGTH_TAG, sum(lengths) / len(lengths))
        return returns

    def _add_speed(self, found: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self._speed_told > _SPEED_SECONDS and self._frame is not None:
            self._speed_told = now
            found.setdefault(SPS_TAG, self._session.steps_per_second(self._step))

    def _counted_step(self) -> int:
        """How far the script is, where it does not say it with a row: by a counter of its own, or by its loop."""
        if self._frame is not None:
            seen = self._frame.f_locals
            for name in _COUNTERS:
                if isinstance(counted := seen.get(name), int | float):
                    return int(counted)
        if self._settings.per_turn is None or self._frame is None:
            return self._step
        return (self._turn + 1) * self._settings.per_turn  # a row of a turn stands for all of it

    def _attend_within_a_turn(self) -> None:
        """At a row a script is between two updates. Where a turn makes many it is held and ended here."""
        if self._frame is None or (self._settings.per_turn or 1) == 1:
            return
        self._busy = True
        self._session.safe_point(self._step)
        if self._session.stop_requested:
            self._save(required=True, counters=self._counters)
            raise Ending(0)
        self._busy = False

    # ---- what the process calls ------------------------------------------------------------------------------------

    def start(self, variables: MutableMapping[str, Any]) -> None:
        """The script is about to run with these globals. One without a loop is let go only when it may begin."""
        self._globals = variables
        if threading.current_thread() is threading.main_thread():
            signal.signal(KNOCK_SIGNAL, lambda *_: self._knocked())
            signal.siginterrupt(KNOCK_SIGNAL, False)
            threading.Thread(target=self._knock, args=(threading.get_ident(),), name="knocker", daemon=True).start()
        if not self._has_loop:
            self._begin(None)
            if self._session.stop_requested:
                raise Ending(0)

    def finish(self) -> None:
        """The script ran to its end."""
        self._over = True
        self._flush()
        if not self._begun:
            self._begin(None)
        if self._frame is None or self._frame.f_locals is not self._globals or self._step == self._resumed_at:
            return
        if not self._session.has_saved(self._step):
            self._save(required=True)

    def abandon(self) -> None:
        """Nothing more comes of the script, whether it finished, failed or was ended. One without a loop that counts is
        as far as it logged."""
        self._over = True
        self._flush()
        self._session.note_step(self._step)

    # ---- the loop --------------------------------------------------------------------------------------------------

    @property
    def _variables(self) -> Namespace:
        """What the loop sees."""
        return self._globals if self._frame is None else variables_of(self._frame, self._globals)

    def _enter(self, frame: FrameType) -> None:
        self._busy = True
        first = self._frame is None
        self._frame = frame
        if first:  # a function with the loop in it may be called again: what it finds then is its own
            variables = self._variables
            arguments = {**_arguments(variables), **self._settings.origin}
            self._session.note_arguments(arguments)
            self._made = marks_of(variables, self._names)
            self._restore()
            total = arguments.get("total_timesteps", self._settings.total)
            self._begin(total if isinstance(total, int) else None)
        self._turn_began = time.perf_counter()
        self._busy = False

    def _restore(self) -> None:
        resume, warm_start = self._settings.resume, self._settings.warm_start
        if not (resume or warm_start):
            return
        belongings = self._belongings()
        try:
            self._session.restore(belongings, resume, warm_start)
        except UsageError as error:
            self._end(USAGE_STATUS, str(error))
        if resume:
            self._resumed = True
            self._turn = belongings.turn
            self._step = self._session.step
            self._resumed_at = self._step
            self._next_checkpoint = self._step + (self._settings.checkpoint_every or math.inf)
            _say(f"Resumed {resume} at step {self._step:,}.")
            for name, why in belongings.left_out.items():
                _say(f"Not resumed: {name}, {why}.")
        else:
            _say(f"Began with the parameters of {warm_start}.")

    def _begin(self, total: int | None) -> None:
        self._begun = True
        self._session.begin(total)

    def _top(self, count: int | None) -> None:
        self._busy = True
        if count is not None:
            self._step = count
        elif type(counted := self._globals.get("global_step")) is int:
            self._step = counted
        elif self._settings.per_turn is not None:
            self._step = max(self._step, self._turn * self._settings.per_turn)
        if self._row:
            self._flush()
        self._session.safe_point(self._step)
        if self._session.stop_requested:
            self._save(required=True)
            raise Ending(0)
        if self._step >= self._next_checkpoint or self._session.checkpoint_requested:
            self._next_checkpoint = self._step + (self._settings.checkpoint_every or math.inf)
            self._save(required=False)
        now = time.perf_counter()
        if now - self._turn_began > _LONG_TURN_SECONDS or not self._turn:
            self._counters = _counters(self._variables, self._names.carried)
        self._turn_began = now
        self._busy = False

    def _made_in_all(self, items: Iterable[Any]) -> int | None:
        """How many steps a loop that counts them has made at its end."""
        return len(items) if self._counts and isinstance(items, Sized) else None

    def _finish_loop(self, count: int | None) -> None:
        self._busy = True
        if count is not None:
            self._step = count
        elif type(counted := self._globals.get("global_step")) is int:
            self._step = counted
        elif self._settings.per_turn is not None:  # scripts that number their rows from 0 have made one more
            self._step = max(self._step, self._turn * self._settings.per_turn)
        self._flush()
        self._save(required=True)
        self._busy = False

    def _flush(self) -> None:
        if self._row:
            row, self._row = self._row, {}
            self._session.scalars(self._row_step, row)

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def _belongings(self) -> Belongings:
        found = Belongings(self._variables, self._names, self._made)
        found.turn = self._turn
        return found

    def _save(self, *, required: bool, counters: dict[str, Any] | None = None) -> None:
        belongings = self._belongings() if self._keeps else None
        if belongings is None or not belongings.trains:
            return
        if wrong := belongings.first_not_finite():
            self._fail(f"{wrong} is not finite any more at step {self._step:,}")
        belongings.counters = counters or {}
        tensors, state = belongings.capture()
        self._session.save_checkpoint(self._step, tensors, state, belongings.spaces(), required=required)
        for name, why in belongings.left_out.items():
            if name not in self._told:
                self._told.add(name)
                _say(f"Checkpoints do not hold {name}: {why}.")

    # ---- requests between turns ------------------------------------------------------------------------------------

    def _knock(self, main_thread: int) -> None:
        while not self._over:
            time.sleep(_KNOCK_SECONDS)
            overdue = self._stop_by is not None and time.monotonic() > self._stop_by
            if (self._session.is_asked or overdue) and not self._over:
                signal.pthread_kill(main_thread, KNOCK_SIGNAL)

    def _knocked(self) -> None:
        if self._busy or self._over:
            return  # the top of a turn is at it, or there is another knock in a moment
        self._session.safe_point(self._step)
        if not self._session.stop_requested:
            return
        if not (self._begun and self._has_loop and self._frame is not None):
            raise Ending(0)
        if self._stop_by is None:
            self._stop_by = time.monotonic() + _PATIENCE_SECONDS
        elif time.monotonic() > self._stop_by:
            self._busy = True
            self._step = int(self._counters.get("global_step", self._step))  # what a resumed run goes on from
            self._save(required=True, counters=self._counters)
            raise Ending(0)

    # ---- ends ------------------------------------------------------------------------------------------------------

    def _fail(self, what: str) -> None:
        self._end(1, f"{what}: the training was stopped, and no checkpoint was written of it")

    def _end(self, status: int, sentence: str) -> None:
        self._busy = True
        self._flush()
        sys.stdout.flush()
        _say(sentence)
        raise Ending(status)


def _counters(variables: MutableMapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    values = ((name, variables.get(name)) for name in names)
    return {name: value for name, value in values if isinstance(value, int | float) and not isinstance(value, bool)}


def _is_loss(tag: str) -> bool:
    """Not everything under ``losses/`` is one: an explained variance may well have no value."""
    return tag.startswith("loss") and tag.rpartition("/")[2].endswith("loss")


def _arguments(variables: MutableMapping[str, Any]) -> dict[str, Any]:
    """The script's parsed command line, as far as it is plain."""
    given = variables.get("args")
    if given is None and dataclasses.is_dataclass(variables.get("config")):
        given = variables["config"]
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        found = {one.name: getattr(given, one.name) for one in dataclasses.fields(given)}
    else:
        found = dict(vars(given)) if hasattr(given, "__dict__") else {}
    plain = {name: value for name, value in found.items() if isinstance(value, str | int | float | bool | None)}
    for other in ("env", "env_name", "gym_id", "dataset_name"):
        if "env_id" not in plain and isinstance(plain.get(other), str):
            plain["env_id"] = plain[other]
    return {name: value for name, value in plain.items() if not isinstance(value, float) or math.isfinite(value)}


def _number(value: Any) -> float | None:
    """A number, also one in an array of one; None for anything else."""
    if isinstance(value, float | int):  # first, because nearly all are
        return float(value)
    try:
        return float(value.item())
    except (AttributeError, TypeError, ValueError, RuntimeError):  # text, pictures, arrays of several
        return None


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
