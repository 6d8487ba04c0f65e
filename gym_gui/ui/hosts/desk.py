"""What can be done to hosts, apart from how it looks: the list is a file, and looking at a host takes an ``ssh``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.hosts.book import Host, HostBook
from gym_gui.services.hosts.checks import Finding, examine
from gym_gui.services.hosts.standing import why_needed
from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

T = TypeVar("T")


class HostDesk(QObject):
    """Reads and writes beside the GUI. ``changed()`` follows the list, a check, and what the daemon says of hosts."""

    changed = pyqtSignal()

    def __init__(self, cockpit: Cockpit, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._book = HostBook(cockpit.bridge.paths)
        self.hosts: dict[str, Host] | None = None
        """By name; None until the list was read."""
        self.problem = ""
        """Why the list cannot be read."""
        self.health: pb.Health | None = None
        self.checking: set[str] = set()
        self.findings: dict[str, list[Finding]] = {}
        """What the last look at a host found."""
        self._is_reading = False
        cockpit.bridge.health_changed.connect(self._take_health)
        cockpit.bridge.connection_changed.connect(self._connection_changed)

    # ---- reading -------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the list again, which the command line may have changed."""
        if not self._is_reading:
            self._is_reading = True
            self._cockpit.bridge.in_background(self._book.hosts, self._take, self._fail, owner=self)

    def _take(self, hosts: dict[str, Host]) -> None:
        self._is_reading = False
        if self.problem or hosts != self.hosts or list(hosts) != list(self.hosts or ()):
            self.hosts, self.problem = hosts, ""
            self.changed.emit()

    def _fail(self, sentence: str) -> None:
        self._is_reading = False
        if sentence != self.problem:
            self.problem = sentence
            self.changed.emit()

    def _take_health(self, health: pb.Health) -> None:
        self.health = health
        self.changed.emit()

    def _connection_changed(self, _: object) -> None:
        if not self._cockpit.bridge.connection.connected:
            self.health = None
            self.changed.emit()

    def told(self, name: str) -> pb.Host | None:
        """What the daemon says of a host."""
        return next((one for one in self.health.hosts if one.name == name), None) if self.health is not None else None

    # ---- doing ---------------------------------------------------------------------------------------------------

    def add(self, host: Host, done: Callable[[], None], failed: Callable[[str], None]) -> None:
        """Write a host into the list and look at it; the sentence of what is wrong with a field goes to ``failed``."""

        def added(_: None) -> None:
            done()
            self.look()
            self.check(host)

        self._cockpit.bridge.in_background(lambda: self._book.add(host), added, failed, owner=self)

    def set_drained(self, host: Host, drained: bool) -> None:
        words = self.tr("No further run starts on {host}.") if drained else self.tr("Runs start on {host} again.")
        self._write(lambda: self._book.change(host.name, drained=drained), words.format(host=host.name))

    def remove(self, host: Host) -> None:
        """Take a host out of the list, unless runs there would be out of reach; it can be put back as it was."""
        if why := self.why_not_removable(host.name):
            self._cockpit.notify(Notice(f"{why[0].upper()}{why[1:]}.", "error"))
            return
        self.findings.pop(host.name, None)
        put_back = lambda: self._write(lambda: self._book.add(host), "")  # noqa: E731
        words = self.tr("{host} is no host any more; its files stay there.").format(host=host.name)
        self._write(lambda: self._book.remove(host.name), words, self.tr("Undo"), put_back)

    def why_not_removable(self, name: str) -> str:
        return why_needed(name, self.told(name))

    def check(self, host: Host) -> None:
        """Look whether runs can go there; takes as long as ssh does."""
        if host.name in self.checking:
            return
        self.checking.add(host.name)
        self.changed.emit()

        def ended(found: list[Finding]) -> None:
            self.checking.discard(host.name)
            self.findings[host.name] = found
            self.changed.emit()

        def failed(sentence: str) -> None:
            ended([Finding("check", "fail", sentence)])

        self._cockpit.bridge.in_background(lambda: examine(host), ended, failed, owner=self)

    def _write(
        self, write: Callable[[], T], words: str, action: str = "", act: Callable[[], None] | None = None
    ) -> None:
        def done(_: T) -> None:
            if words:
                self._cockpit.notify(Notice(words, action=action, act=act))
            self.look()

        failed = lambda sentence: self._cockpit.notify(Notice(sentence, "error"))  # noqa: E731
        self._cockpit.bridge.in_background(write, done, failed, owner=self)
