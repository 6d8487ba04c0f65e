"""Histograms, images, texts or clips of the selected runs, in as many columns as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PyQt6.QtCore import QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import is_over, size
from gym_gui.ui.context import Cockpit
from gym_gui.ui.media.cards import CARDS, MediaCard
from gym_gui.ui.media.shelf import MediaShelf, Shelved, Source
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb

CLIP = "clip"
COLUMN_WIDTH = 330
MOST_CARDS = 120
_TICK_MILLISECONDS = 100
_LOOK_MILLISECONDS = 5000
_MADE_AT_ONCE = 4
_GAP = 8
Key = tuple[str, str]
"""Run and tag, or run and the path of a clip."""
_Found = tuple[Key, pb.Run, Shelved]


class ClipCard(QFrame):
    """``wanted()`` when it shall be played."""

    wanted = pyqtSignal()

    def __init__(self, clip: Path, run: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        name = ElidedLabel(one_line(clip.stem), cut=cut_name)
        about = ElidedLabel(" · ".join(part for part in (one_line(run), _size_of(clip)) if part))
        about.setProperty("role", "muted")
        self.play = QPushButton(self.tr("Play"))
        self.play.setToolTip(self.tr("Play the clip on the stage, in Replay"))
        self.play.setAccessibleName(self.tr("Play {clip}").format(clip=name.text()))
        self.play.clicked.connect(self.wanted)
        words = QVBoxLayout()
        words.addWidget(name)
        words.addWidget(about)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 6, 10, 6)
        layout.addLayout(words, 1)
        layout.addWidget(self.play)


class MediaPage(QWidget):
    """Looks through files while it can be seen, again every few seconds while a run goes on; reads what is in sight.
    ``clip_wanted(run_id, Path)``; ``shown()`` when there is more or less to see."""

    clip_wanted = pyqtSignal(str, object)
    shown = pyqtSignal()

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self.shelf = MediaShelf(cockpit.bridge, self)
        self._kind, self._wanted, self._run_ids = "histogram", "", list[str]()
        self.cards: dict[Key, QWidget] = {}
        self._found: list[_Found] = []
        self._arranged: object = None
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.note.setProperty("role", "muted")
        self.empty = EmptyPage()
        self._inside = QWidget()
        self._grid = QGridLayout()
        self._grid.setSpacing(_GAP)
        inside = QVBoxLayout(self._inside)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.addLayout(self._grid)
        inside.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidget(self._inside)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(self._scroll)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.note)
        layout.addWidget(self.pages, 1)
        self._tick, self._look_timer = QTimer(self), QTimer(self)
        self._tick.setInterval(_TICK_MILLISECONDS)
        self._look_timer.setInterval(_LOOK_MILLISECONDS)
        self._tick.timeout.connect(self.tick)
        self._look_timer.timeout.connect(lambda: self._look(again=False))
        self.shelf.listed.connect(lambda _: self._show())

    # ---- what is shown -------------------------------------------------------------------------------------------

    def show_runs(self, run_ids: Sequence[str]) -> None:
        self._run_ids = list(run_ids)
        self._look(again=True)
        self._show()

    def show_kind(self, kind: str) -> None:
        if kind != self._kind:
            self._kind = kind
            self._clear()
            self._look(again=True)
            self._show()

    def set_wanted(self, words: str) -> None:
        """Only tags with all these words."""
        self._wanted = words
        self._show()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._look(again=True)
        self._show()
        self._tick.start()
        self._look_timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._tick.stop()
        self._look_timer.stop()
        super().hideEvent(event)

    def _runs(self) -> list[pb.Run]:
        return [run for run_id in self._run_ids if (run := self._cockpit.runs.get(run_id)) is not None]

    def _look(self, *, again: bool) -> None:
        """Through everything, or only through what may have grown or was not looked through yet."""
        if self.isVisible():
            for run in self._runs():
                if again or not is_over(run) or self.shelf.of(run.run_id) is None:
                    self.shelf.look(run)

    def _names(self, shelved: Shelved) -> list[str]:
        """Tags, or paths of clips, that the filter lets through."""
        is_clip, words = self._kind == CLIP, self._wanted.lower().split()
        names = [str(clip) for clip in shelved.clips] if is_clip else sorted(shelved.contents.of(self._kind))
        return [name for name in names if all(word in name.lower() for word in words)]

    def _find(self) -> list[_Found]:
        """By tag, and of one tag in the order of the runs; clips run by run, in the order of their steps."""
        found: list[_Found] = []
        for run in self._runs():
            shelved = self.shelf.of(run.run_id)
            if shelved is not None:
                found += [((run.run_id, name), run, shelved) for name in self._names(shelved)]
        return found if self._kind == CLIP else sorted(found, key=lambda one: one[0][1])

    def _show(self) -> None:
        if not self.isVisible():
            return
        found = self._find()
        self._found = found[:MOST_CARDS]
        keys = {key for key, _, _ in self._found}
        for key in [key for key in self.cards if key not in keys]:
            _remove(self.cards.pop(key))
        for key, run, shelved in self._found:
            card = self.cards.get(key)
            if isinstance(card, MediaCard):
                card.take(self._source(key, run, shelved))
        self._arrange()
        self._tell(len(found))
        self.shown.emit()

    def tick(self) -> None:
        """Make what is missing, a few at a time, and have what is in sight read."""
        missing = [one for one in self._found if one[0] not in self.cards]
        for key, run, shelved in missing[:_MADE_AT_ONCE]:
            self.cards[key] = self._made(key, run, shelved)
        if missing:
            self._arrange()
        for card in self.cards.values():
            if isinstance(card, MediaCard):
                card.refresh()

    def _made(self, key: Key, run: pb.Run, shelved: Shelved) -> QWidget:
        if self._kind == CLIP:
            card = ClipCard(Path(key[1]), self._name(run))
            card.wanted.connect(lambda: self.clip_wanted.emit(run.run_id, Path(key[1])))
            return card
        return CARDS[self._kind](self.shelf, self._cockpit.themes, self._source(key, run, shelved), self._inside)

    def _source(self, key: Key, run: pb.Run, shelved: Shelved) -> Source:
        return Source(run.run_id, self._name(run), key[1], shelved.media, shelved.contents.of(self._kind)[key[1]])

    def _name(self, run: pb.Run) -> str:
        return self._cockpit.runs.label(run) if len(self._run_ids) > 1 else ""

    def _clear(self) -> None:
        for card in self.cards.values():
            _remove(card)
        self.cards, self._arranged = {}, None

    # ---- layout --------------------------------------------------------------------------------------------------

    def _columns(self) -> int:
        return max(1, self.width() // COLUMN_WIDTH)

    def _arrange(self) -> None:
        shown, columns = [key for key, _, _ in self._found if key in self.cards], self._columns()
        if (shown, columns) == self._arranged:
            return
        self._arranged = (shown, columns)
        while self._grid.count():
            self._grid.takeAt(0)
        for number, key in enumerate(shown):
            self._grid.addWidget(self.cards[key], number // columns, number % columns)
            self.cards[key].show()
        for column in range(12):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._arrange()

    # ---- words ---------------------------------------------------------------------------------------------------

    def _tell(self, count: int) -> None:
        notes = [note for run in self._runs() if (one := self.shelf.of(run.run_id)) for note in one.contents.notes]
        if count > MOST_CARDS:
            said = self.tr("The first {shown} of {all} are shown: type words of a name to find others.")
            notes.append(said.format(shown=MOST_CARDS, all=f"{count:,}"))
        told = [f"{one_line(note).rstrip('.')}." for note in dict.fromkeys(notes)]
        more = [self.tr("And {count} more.").format(count=len(told) - 2)] if len(told) > 2 else []
        self.note.setText(" ".join(told[:2] + more))
        self.note.setVisible(bool(told))
        self.pages.setCurrentIndex(1 if count else 0)
        if not count:
            self.empty.tell(*self._why_empty())

    def _why_empty(self) -> tuple[str, str]:
        tr = self.tr
        runs = self._runs()
        if not runs:
            return tr("No run is selected"), tr("Select a run in the list to see what it left.")
        if any(self.shelf.of(run.run_id) is None for run in runs):
            return tr("Looking through the files…"), ""
        if self._wanted and not self._is_nothing():
            return tr("Nothing has these words in its name"), tr("Clear the filter to see everything.")
        titles = {
            "histogram": tr("No histograms"),
            "image": tr("No images"),
            "text": tr("No texts"),
            CLIP: tr("No clips"),
        }
        return titles[self._kind], self._advice()

    def _is_nothing(self) -> bool:
        shelved = [one for run in self._runs() if (one := self.shelf.of(run.run_id)) is not None]
        return not any(one.clips if self._kind == CLIP else one.contents.of(self._kind) for one in shelved)

    def _advice(self) -> str:
        if self._kind == CLIP:
            return self.tr("With “Video” in the train form, or --capture-video, a run keeps clips as it learns.")
        words = self.tr(
            "The event files of the selected runs hold none. A script writes them with {call}; "
            "`mosaic import-logs` brings the event files of other programs."
        )
        calls = {"histogram": "add_histogram", "image": "add_image", "text": "add_text"}
        return words.format(call=f"SummaryWriter.{calls[self._kind]}")


def _remove(card: QWidget) -> None:
    card.hide()
    card.deleteLater()


def _size_of(clip: Path) -> str:
    try:
        return size(clip.lstat().st_size)
    except OSError:
        return ""
