"""Between the trainer daemon and the widgets: calls and streams in threads, their results in the GUI's thread.

Threads only put things into queues; one timer in the GUI's thread empties them some thirty times a second and hands
everything on in batches, so a flood of updates costs the GUI one signal per batch and no widget is ever touched from
another thread. The daemon may go and come back at any time: what was followed is then followed again from where it
stopped.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from PyQt6 import sip
from PyQt6.QtCore import QObject, QTimer, pyqtSignal

from gym_gui.services.remote.paths import PathsElsewhere
from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.stop_note import was_stopped
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb

T = TypeVar("T")
FeedKind = TypeVar("FeedKind", bound="Feed")
Stream = Callable[[TrainerClient, int], Iterator[tuple[int, Any]]]

DRAIN_MILLISECONDS = 33
HEALTH_SECONDS = 2.0
RETRY_SECONDS = 0.5
CALLS_AT_ONCE = 4
CALL_PATIENCE_SECONDS = 3.0
MISSES_TOLD = 2
"""A daemon that is stopped or starved keeps its connections; after so many unanswered questions that is said."""
_PASSING = frozenset({"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "ABORTED"})
"""What a stream ends with when the daemon goes, or its machine fails it for a moment: both are expected to pass."""


@dataclass(frozen=True)
class ConnectionState:
    """Whether the daemon answers, and a sentence about it for the status bar."""

    connected: bool
    sentence: str
    stopped: bool = False
    """Whether it was stopped on purpose: it is not started again until somebody asks for it."""


_STOPPED = ConnectionState(
    False, "The trainer daemon was stopped. Runs go on without it; start it to follow and control them.", stopped=True
)


class TrainerBridge(QObject):
    """One connection to the daemon of a data root. Its methods are called in the GUI's thread, :meth:`post` in any.

    Signals: ``connection_changed(ConnectionState)``; ``runs_changed(list[pb.Run])`` with every run once after a
    connection was made and then whatever changed (``run.deleted`` marks what is gone); ``health_changed(pb.Health)``;
    ``stopping()`` when the cockpit closes, for what must end before it.
    """

    connection_changed = pyqtSignal(object)
    runs_changed = pyqtSignal(list)
    health_changed = pyqtSignal(object)
    stopping = pyqtSignal()

    def __init__(self, paths: MosaicPaths, parent: QObject | None = None, *, start_daemon: bool = True) -> None:
        super().__init__(parent)
        self.paths = paths
        self._link = paths.link if isinstance(paths, PathsElsewhere) else None
        self.server = self._link.server.destination if self._link is not None else ""
        """The machine of the daemon, "" for this one."""
        self._start_daemon = start_daemon
        self._wanted = threading.Event()
        """Set while a person wants a daemon that was stopped on purpose."""
        self._stopped: ConnectionState | None = None
        """What to say of a daemon that was stopped on purpose, None of any other. Of the thread that watches."""
        self._met = False
        """Whether the daemon answered in this round of watching. Of the same thread."""
        self.connection = ConnectionState(False, "connecting to the trainer daemon…")
        self._client: TrainerClient | None = None
        self._client_made = threading.Condition()
        self._leaving = threading.Event()
        self._answers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._runs: dict[str, Any] = {}
        self._runs_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._feeds: set[Feed] = set()
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="trainer-call")
        self._timer = QTimer(self)
        self._timer.setInterval(DRAIN_MILLISECONDS)
        self._timer.timeout.connect(self._drain)

    # ---- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect, starting the daemon when none runs (unless asked not to), and keep connected until :meth:`stop`."""
        self._timer.start()
        for name, work in (("trainer-watch", self._watch), ("trainer-health", self._watch_health)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let go of the daemon, whose runs go on, and leave no thread behind."""
        self.stopping.emit()
        self._leaving.set()
        self._wanted.set()
        for feed in list(self._feeds):
            feed.stop()
        with self._client_made:
            if self._client is not None:
                self._client.close()
            self._client_made.notify_all()
        if self._link is not None:
            self._link.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for thread in self._threads:
            thread.join()
        self._timer.stop()

    def start_again(self) -> None:
        """Start the daemon although it was stopped on purpose, because a person wants it."""
        self._wanted.set()

    # ---- asking --------------------------------------------------------------------------------------------------

    def call(
        self,
        what: Callable[[TrainerClient], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[str], None] | None = None,
        *,
        owner: QObject | None = None,
    ) -> None:
        """Ask the daemon in a thread; the answer, or the sentence why there is none, comes to the GUI's thread.

        Neither is called when ``owner`` was deleted meanwhile.
        """
        self.in_background(lambda: what(self._await_client()), done, failed, owner=owner)

    def in_background(
        self,
        what: Callable[[], T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[str], None] | None = None,
        *,
        owner: QObject | None = None,
    ) -> None:
        """The same for slow work that needs no daemon: reading files, asking a worker by process."""

        def deliver(callback: Callable[[Any], None] | None, value: object) -> None:
            if callback is not None and not (owner is not None and sip.isdeleted(owner)):
                callback(value)

        def work() -> None:
            try:
                answer = what()
            except Exception as error:  # noqa: BLE001 - whatever it is belongs on the screen, not into a dead thread
                sentence = str(error) or type(error).__name__
                self._answers.put(lambda: deliver(failed, sentence))
            else:
                self._answers.put(lambda: deliver(done, answer))

        if not self._leaving.is_set():
            self._pool.submit(work)

    def post(self, callback: Callable[[], None]) -> None:
        """Have something called in the GUI's thread. The one method for other threads: progress of background work."""
        self._answers.put(callback)

    def follow(self, stream: Stream, parent: QObject) -> Feed:
        """Follow a stream of (cursor, item); it is taken up again from the last cursor when the daemon comes back."""
        return self.begin(Feed(self, stream, parent))

    def begin(self, feed: FeedKind) -> FeedKind:
        """Start a feed of any kind; what it brings is handed on with everything else, and :meth:`stop` ends it."""
        self._feeds.add(feed)
        feed.start()
        return feed

    def forget(self, feed: Feed) -> None:
        self._feeds.discard(feed)

    # ---- threads -------------------------------------------------------------------------------------------------

    def _await_client(self) -> TrainerClient:
        with self._client_made:
            if self._client is None:
                self._client_made.wait(CALL_PATIENCE_SECONDS)
            if self._client is None or self._leaving.is_set():
                raise ClientError("the trainer daemon is away; this is tried again when it is back", "UNAVAILABLE")
            return self._client

    def _watch(self) -> None:
        while not self._leaving.is_set():
            wanted, self._met = self._wanted.is_set(), False
            self._wanted.clear()
            try:
                self._watch_once(start=wanted or (self._start_daemon and self._stopped is None))
                away = ConnectionState(False, f"{self._daemon} left; looking for it…")
            except TrainerError as error:
                away = ConnectionState(False, str(error))
            except OSError as error:
                unusable = f"cannot use {self.paths.root} for data: {error.strerror or error}."
                away = ConnectionState(False, f"{unusable} Set MOSAIC_HOME to a folder you can write to.")
            except ValueError:  # the channel was closed under it, because this cockpit leaves
                away = ConnectionState(False, "the connection was closed; looking for the daemon…")
            if wanted and not self._met and self._stopped is not None:
                self._stopped = replace(away, stopped=True)  # why it did not come up is what a person has to know
            self._tell_connection(self._stopped or away)
            self._wanted.wait(RETRY_SECONDS)

    def _watch_once(self, *, start: bool) -> None:
        """Connect and pass on what changes, until the connection breaks."""
        client = TrainerClient.connect(self.paths, start=start, patience=0)
        try:
            health = client.health(timeout=5)
            self._met, self._stopped = True, None
            self._set_client(client)
            self._tell_connection(self._connected(health))
            self._answers.put(lambda: self.health_changed.emit(health))
            for update in client.watch():
                with self._runs_lock:
                    self._runs[update.run.run_id] = update.run
                if self._leaving.is_set():
                    return
        finally:
            if self._met and self._was_stopped():
                self._stopped = _STOPPED
            self._set_client(None)
            client.close()

    def _watch_health(self) -> None:
        missed = 0
        while not self._leaving.wait(HEALTH_SECONDS):
            with self._client_made:
                client = self._client
            if client is None:
                missed = 0
                continue
            try:
                health = client.health(timeout=HEALTH_SECONDS)
            except (TrainerError, ValueError):  # ValueError: the channel was closed meanwhile
                missed += 1
                if missed == MISSES_TOLD:
                    self._tell_connection(ConnectionState(False, f"{self._daemon} does not answer; waiting for it…"))
                continue
            if missed >= MISSES_TOLD:
                self._tell_connection(self._connected(health))
            missed = 0
            self._answers.put(lambda health=health: self.health_changed.emit(health))  # type: ignore[misc]

    @property
    def _daemon(self) -> str:
        return f"the trainer daemon on {self.server}" if self.server else "the trainer daemon"

    def _connected(self, health: pb.Health) -> ConnectionState:
        if self._link is None:
            return ConnectionState(True, f"connected to the trainer daemon at {health.target}")
        warning = f" ({self._link.warning})" if self._link.warning else ""
        return ConnectionState(True, f"connected to {self._daemon}, data in {health.home}{warning}")

    def _was_stopped(self) -> bool:
        return was_stopped(self.paths) if self._link is None else self._link.was_stopped()

    def _set_client(self, client: TrainerClient | None) -> None:
        with self._client_made:
            self._client = client
            self._client_made.notify_all()

    def _tell_connection(self, state: ConnectionState) -> None:
        def tell() -> None:
            if state != self.connection:
                self.connection = state
                self.connection_changed.emit(state)

        self._answers.put(tell)

    # ---- the GUI's thread ----------------------------------------------------------------------------------------

    def _drain(self) -> None:
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                break
            answer()
        with self._runs_lock:
            changed, self._runs = list(self._runs.values()), {}
        if changed:
            self.runs_changed.emit(changed)
        for feed in list(self._feeds):
            if sip.isdeleted(feed):  # with the widget that followed it, which did not stop it
                feed.stop()
            else:
                feed.drain()


class Feed(QObject):
    """One followed stream. ``arrived(list)`` brings items in order, each once; ``ended()`` when there will be no more,
    ``failed(str)`` when the daemon refused. :meth:`stop` it when nobody looks any more.

    It has a connection of its own: closing that is the one way to interrupt a stream which waits.
    """

    arrived = pyqtSignal(list)
    ended = pyqtSignal()
    failed = pyqtSignal(str)

    def __init__(self, bridge: TrainerBridge, stream: Stream, parent: QObject) -> None:
        super().__init__(parent)
        self._bridge, self._stream = bridge, stream
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._client: TrainerClient | None = None
        self._client_lock = threading.Lock()
        self._over: str | None = None
        self._cursor = 0
        self._thread = threading.Thread(target=self._work, name="trainer-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End it and its thread; nothing arrives afterwards. May be called twice."""
        self._stopped.set()
        with self._client_lock:
            if self._client is not None:
                self._client.close()
        self._thread.join()
        self._bridge.forget(self)

    def drain(self) -> None:
        """Hand on what has come; called by the bridge in the GUI's thread."""
        over = self._over  # looked at first: what came before the end is in the queue then
        items = []
        while True:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                break
        if items:
            self.arrived.emit(items)
        if over is not None and not self._stopped.is_set():
            self._bridge.forget(self)
            self.failed.emit(over) if over else self.ended.emit()

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                for cursor, item in self._stream(self._connect(), self._cursor):
                    self._cursor = cursor
                    self._items.put(item)
                self._over = ""
                return
            except ClientError as error:
                if error.status not in _PASSING:
                    self._over = str(error)
                    return
            except (TrainerError, OSError, ValueError):
                pass  # away, or the connection was closed under it: the daemon comes back, or this feed ends
            self._stopped.wait(RETRY_SECONDS)

    def _connect(self) -> TrainerClient:
        client = TrainerClient.connect(self._bridge.paths, start=False, patience=0)
        with self._client_lock:
            if self._client is not None:
                self._client.close()
            self._client = client
            if self._stopped.is_set():
                client.close()
        return client
