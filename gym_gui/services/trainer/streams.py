"""Live steps and episodes for a program that watches: the :class:`RunBus`.

Each subscription spends credits. A consumer that takes what comes gets every record; one that does not keep up hears
``STARVED``, sees the newest records now and then, and hears with ``RESUMED`` exactly how many it missed. It can read
those from the store (:meth:`~gym_gui.services.trainer.client.TrainerClient.steps`), which has them all. Whether
somebody watches, and how slowly, is felt neither by the worker nor by the store.

A record that was left out is counted once: ``STARVED`` counts none, ``RESUMED`` those since, and it also comes when the
stream ends while it starves. ``GONE`` counts steps that the store does not have either: retention removed them, or they
arrived damaged. So the ``missed`` of all controls add up to :attr:`Subscription.missed`, and with the records that came
to all that there were.

``TelemetryAsyncHub``, which gates the records on the daemon's side, is
:class:`gym_gui.services.trainer.telemetry.hub.TelemetryHub`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

from ulid import ULID

from gym_gui.services.trainer.client import ClientError, DaemonAwayError, TrainerClient, steps_of
from mosaic_protocol import events as ev
from mosaic_protocol.proto import trainer_pb2 as pb

STARVED, RESUMED, GONE = "STARVED", "RESUMED", "GONE"
CREDITS = 4096
_AGAIN_SECONDS = 0.2
_KINDS = ("steps", "episodes")


@dataclass(frozen=True)
class StreamControl:
    """What became of the stream itself. ``missed`` counts the records that were left out since the last control: 0 with
    STARVED, all of the gap with RESUMED, those that nobody has any more with GONE."""

    kind: str
    missed: int = 0


BusEvent: TypeAlias = ev.TrainingStep | ev.EpisodeSummary | StreamControl


class Subscription:
    """What one consumer gets of one run. Thread-safe; one thread of its own reads from the daemon."""

    def __init__(
        self,
        client: TrainerClient,
        kind: str,
        run_id: str,
        credit: int,
        *,
        tail: int = 0,
        after_row: int = 0,
        observations: bool = True,
    ) -> None:
        if kind not in _KINDS:
            raise ValueError(f"a run has {' and '.join(_KINDS)} to subscribe to, not {kind!r}")
        self.run_id, self.kind = run_id, kind
        self.missed = 0
        """How many records were left out so far."""
        self._client, self._credit, self._watch_id = client, credit, str(ULID())
        self._waiting: deque[BusEvent] = deque()
        self._left = credit
        """Credits that the daemon has for this stream; below 0 after a page that took more. With what waits they are
        never more than the consumer gave, also when some of it cost none."""
        self._ended, self._error = False, ""
        self._changed = threading.Condition()
        self._observations = observations
        self._row = after_row
        self._starved_at: int | None = None
        """How many were missed when the stream starved; None while it does not."""
        self._pages = client.live(kind, run_id, credit=credit, watch_id=self._watch_id, tail=tail, after_row=after_row)
        self._thread = threading.Thread(target=self._read, name=f"run-bus-{kind}", daemon=True)
        self._thread.start()

    def get(self, timeout: float | None = None) -> BusEvent | None:
        """The next event; None when none came in time, or none will come (:attr:`ended`)."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, timeout)
            event = self._waiting.popleft() if self._waiting else None
            room = self._credit - len(self._waiting) - self._left
            due = room if room >= max(1, self._credit // 2) else 0
            self._left += due
        if due:
            self._grant(due)
        return event

    @property
    def row(self) -> int:
        """Up to which row of the store everything came or was counted as missed."""
        return self._row

    @property
    def is_starving(self) -> bool:
        """Whether records are being left out."""
        return self._starved_at is not None

    def __iter__(self) -> Iterator[BusEvent]:
        """Events until the run is over or the subscription closed."""
        while (event := self.get()) is not None:
            yield event

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended and not self._waiting

    @property
    def error(self) -> str:
        """Why the stream ended before its run; empty for an ordinary end."""
        return self._error

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()
            self._pages.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _grant(self, credit: int) -> None:
        try:
            self._client.grant_credits(self._watch_id, credit)
        except ClientError:  # the daemon is away: the stream ends or begins again, with credits of its own
            return

    def _read(self) -> None:
        try:
            while not self._is_read_to_its_end():
                self._begin_again()
        except ClientError as error:
            self._error = str(error)
        except ValueError as error:  # gRPC's word for a client that was closed under it
            self._error = str(error)
        finally:
            with self._changed:
                if not self._ended:
                    self._take_control(RESUMED)
                self._ended = True
                self._changed.notify_all()

    def _is_read_to_its_end(self) -> bool:
        """False when the daemon went away: the next one has everything."""
        try:
            for page in self._pages:
                self._take(page)
        except DaemonAwayError:
            with self._changed:
                return self._changed.wait_for(lambda: self._ended, _AGAIN_SECONDS)
        return True

    def _begin_again(self) -> None:
        """Go on after the last record that came, with as many credits as there is room."""
        with self._changed:
            if self._ended:
                return
            self._watch_id = str(ULID())
            self._take_control(RESUMED)  # the next daemon knows nothing of what the last one left out
            self._left = max(1, self._credit - len(self._waiting))
            self._pages = self._client.live(
                self.kind, self.run_id, credit=self._left, watch_id=self._watch_id, after_row=self._row
            )

    def _take(self, page: pb.RecordPage) -> None:
        events = list(self._events(page))
        with self._changed:
            if self._ended:
                return
            self._row = page.last_row
            if page.control:
                self._take_control(page.control)
            elif self._starved_at is not None:
                self._take_thinned(page.missed, events)
            else:
                self.missed += page.missed
                self._left -= len(events)
                if page.missed:
                    self._waiting.append(StreamControl(GONE, page.missed))
                self._waiting.extend(events)
            self._changed.notify_all()

    def _take_thinned(self, missed: int, events: list[BusEvent]) -> None:
        """Of a stream that starves: it costs no credits. Who takes nothing gets no more of it either."""
        self.missed += missed
        if len(self._waiting) + max(0, self._left) < self._credit:
            self._waiting.extend(events)
        else:
            self.missed += len(events)

    def _take_control(self, kind: str) -> None:
        if kind == STARVED:
            self._starved_at = self.missed
            self._waiting.append(StreamControl(STARVED))
        elif self._starved_at is not None:
            self._waiting.append(StreamControl(RESUMED, self.missed - self._starved_at))
            self._starved_at = None

    def _events(self, page: pb.RecordPage) -> Iterator[BusEvent]:
        for line in page.records:
            record = ev.decode(line)
            if isinstance(record, ev.EpisodeSummary):
                yield record
            else:
                yield from steps_of(record, page.first_row, None, observations=self._observations)


class RunBus:
    """Hands live records of runs to consumers of one process. Close it, or use it as a context manager."""

    def __init__(self, client: TrainerClient) -> None:
        self._client = client
        self._subscriptions: list[Subscription] = []

    def subscribe(
        self,
        run_id: str,
        kind: str = "steps",
        *,
        credit: int = CREDITS,
        tail: int = 0,
        after_row: int = 0,
        observations: bool = True,
    ) -> Subscription:
        """Events of a run from its beginning on, from its last ``tail`` records on, or after a row of the store that
        another subscription had reached. ``credit`` bounds what waits for the consumer. Without ``observations`` they
        are not unpacked: pictures cost many times what the rest of their step does."""
        subscription = Subscription(
            self._client, kind, run_id, credit, tail=tail, after_row=after_row, observations=observations
        )
        self._subscriptions.append(subscription)
        return subscription

    def close(self) -> None:
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    def __enter__(self) -> RunBus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
