"""Name, tags and notes of one run, changed where they stand."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QObject, QStringListModel, Qt
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import (
    QCompleter,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from gym_gui.ui.context import Cockpit
from gym_gui.ui.run_labelling import RunLabelling, notes_of
from gym_gui.ui.widgets.completions import close_when_complete
from gym_gui.ui.widgets.flow_layout import FlowLayout
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.run_config import MAX_NOTES

_NOTE_LINES = 3
_LONGEST_LABEL = 120


class LabelEditor(QFrame):
    """What is typed is kept with Return or when the focus leaves; Escape brings back what was there.

    A tag is a button: pressing it, or Delete on it, takes it away. News of the run do not change what somebody is
    typing.
    """

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit, self.run_id = cockpit, run_id
        self._labelling = RunLabelling.of(cockpit)
        self._tags: list[str] = []
        self.chips: dict[str, QPushButton] = {}
        self.name = QLineEdit()
        self.name.setMaxLength(_LONGEST_LABEL)
        self.name.setAccessibleName(self.tr("Name of the run"))
        self.name.setToolTip(self.tr("Call the run something else; its id and its files stay as they are"))
        self.name.editingFinished.connect(self._keep_name)
        self.notes = QPlainTextEdit()
        self.notes.setPlaceholderText(self.tr("Notes: what you tried, what came of it, what comes next"))
        self.notes.setAccessibleName(self.tr("Notes about the run"))
        self.notes.setToolTip(self.tr("Kept with the run when you leave the field (Ctrl+Return)"))
        self.notes.setTabChangesFocus(True)
        line = self.notes.fontMetrics().lineSpacing()
        self.notes.setMinimumHeight(line + 16)  # a small window has little height
        self.notes.setMaximumHeight(line * _NOTE_LINES + 20)
        self.new_tag = self._make_new_tag()
        self._row = QWidget()
        self._flow = FlowLayout(self._row)
        self._flow.addWidget(self.new_tag)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (self.name, self._row, self.notes):
            layout.addWidget(widget)
        for widget in (self.name, self.notes, self.new_tag):
            widget.installEventFilter(self)
        self.show_run()

    def _make_new_tag(self) -> QLineEdit:
        line = QLineEdit()
        line.setPlaceholderText(self.tr("Add a tag"))
        line.setAccessibleName(line.placeholderText())
        line.setToolTip(self.tr("Find the run by it: tag=…; a comma separates several (Return)"))
        line.setMaxLength(4 * _LONGEST_LABEL)
        line.setFixedWidth(110)
        self._known_tags = QStringListModel(line)
        completer = QCompleter(self._known_tags, line)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        line.setCompleter(completer)
        close_when_complete(line, completer)
        line.returnPressed.connect(self._add_tags)
        return line

    # ---- showing -------------------------------------------------------------------------------------------------

    @property
    def _run(self) -> pb.Run | None:
        return self._cockpit.runs.get(self.run_id)

    def show_run(self) -> None:
        """Show the run as it is, but for the field in which somebody types."""
        run = self._run
        if run is None:
            return
        if not self.name.hasFocus():
            self.name.setText(run.name)
            self.name.setCursorPosition(0)
        if not self.notes.hasFocus() and self.notes.toPlainText() != (text := notes_of(run)):
            self.notes.setPlainText(text)
        if self._tags != list(run.tags):
            self._show_tags(list(run.tags))

    def _show_tags(self, tags: list[str]) -> None:
        focused = next((tag for tag, chip in self.chips.items() if chip.hasFocus()), "")
        place = self._tags.index(focused) if focused else -1
        while self._flow.count():
            self._flow.takeAt(0)
        for chip in self.chips.values():
            chip.deleteLater()
        self._tags, self.chips = tags, {tag: self._make_chip(tag) for tag in tags}
        for chip in self.chips.values():
            self._flow.addWidget(chip)
            chip.show()
        self._flow.addWidget(self.new_tag)
        self._row.updateGeometry()
        if focused:  # the keyboard goes to the neighbour of a tag that was taken away
            left = list(self.chips.values())
            (left[min(place, len(left) - 1)] if left else self.new_tag).setFocus()

    def _make_chip(self, tag: str) -> QPushButton:
        chip = QPushButton(f"{tag}  ×".replace("&", "&&"))
        chip.setProperty("kind", "tag")
        chip.setAccessibleName(self.tr("Tag {tag}, press to remove").format(tag=tag))
        chip.setToolTip(self.tr("Take the tag {tag} away (it can be undone)").format(tag=tag))
        chip.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        chip.clicked.connect(lambda: self._remove_tag(tag))
        chip.installEventFilter(self)
        return chip

    # ---- changing ------------------------------------------------------------------------------------------------

    def _keep_name(self) -> None:
        run, name = self._run, self.name.text().strip()
        if run is not None and name and name != run.name:
            self._labelling.rename(run, name)
        elif run is not None:
            self.name.setText(run.name)

    def _keep_notes(self) -> None:
        run, notes = self._run, self.notes.toPlainText()[:MAX_NOTES]
        if run is not None and notes != notes_of(run):
            self._labelling.note(run, notes)

    def _add_tags(self) -> None:
        run = self._run
        wanted = [tag.strip() for tag in self.new_tag.text().split(",")]
        fresh = [tag for tag in dict.fromkeys(wanted) if tag and run is not None and tag not in run.tags]
        self.new_tag.clear()
        if run is not None and fresh:
            self._labelling.tag(run, add=fresh)

    def _remove_tag(self, tag: str) -> None:
        run = self._run
        if run is not None:
            self._labelling.tag(run, remove=[tag])

    def _offer_tags(self) -> None:
        """Those that other runs have, as they are at this moment."""
        known = sorted({tag for run in self._cockpit.runs for tag in run.tags} - set(self._tags))
        self._known_tags.setStringList(known)

    # ---- keyboard ------------------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and watched is self.new_tag and event.type() == QEvent.Type.FocusIn:
            self._offer_tags()
        if event is not None and watched is self.notes and event.type() == QEvent.Type.FocusOut:
            self._keep_notes()
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and self._key(watched, event):
            return True
        return super().eventFilter(watched, event)

    def _key(self, watched: QObject | None, event: QKeyEvent) -> bool:
        """Whether a key was meant for the editor and not for the field."""
        run, key = self._run, event.key()
        if run is None:
            return False
        if key == Qt.Key.Key_Escape and watched in (self.name, self.notes, self.new_tag):
            self.name.setText(run.name)
            self.notes.setPlainText(notes_of(run))
            self.new_tag.clear()
            return True
        is_return = key in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if watched is self.notes and is_return and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._keep_notes()
            return True
        tag = next((tag for tag, chip in self.chips.items() if chip is watched), "")
        if tag and key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._remove_tag(tag)
            return True
        return False
