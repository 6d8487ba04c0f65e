"""Which file a worker is given: one that comes with it, or a person's own; and an editor to change it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QPushButton, QToolButton, QVBoxLayout, QWidget

from gym_gui.services.run_request import RunRequest
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolRefusedError
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.field_editor import LABEL_WIDTH, RESET_WIDTH
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.settings_of import settings_of
from gym_gui.ui.icons import icon
from gym_gui.ui.own_files.code_editor import CodeEditor, Colour
from gym_gui.ui.own_files.files import OwnFiles
from gym_gui.ui.own_files.mistake import Mistake
from gym_gui.ui.styling import let_shrink, tell
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.workers.catalog import WorkerEntry


@dataclass(frozen=True)
class FileWords:
    """How a form speaks of one kind of file."""

    title: str
    """Beside the choice."""
    choose: str
    browse: str
    edit: str
    check: str
    filters: str
    """Of the file dialog."""
    editor: str
    """What is edited."""
    unsaved: str
    """Why a run would do something else than what is seen."""
    save_first: str
    saved_tip: str
    checking: str
    fine: str


class FilePanel(QWidget):
    """``changed()`` follows every choice and every change of what is saved. The setting is in :attr:`group`, whose
    editor is out of sight: the list here stands for it.

    A subclass says what kind of files these are. The worker's dry run reads one, and its refusal names the place.
    """

    changed = pyqtSignal()
    field = ""
    """The worker's setting that names the file."""
    names_the_file = ""
    """What refusals of a file begin with that have no place in it."""
    colours: Colour

    def find_files(self) -> OwnFiles:
        """Called in a thread."""
        raise NotImplementedError

    def words(self) -> FileWords:
        raise NotImplementedError

    def mistake_in(self, sentence: str) -> Mistake | None:
        """The place that a worker's refusal names."""
        raise NotImplementedError

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__()
        self._cockpit, self._entry, self._queries = cockpit, entry, queries
        self._words = self.words()
        self.files: OwnFiles | None = None
        self.group = FieldGroup(cockpit.themes, parent=self)
        self.group.hide()
        self.group.changed.connect(self.follow_field)
        self._file: Path | None = None
        """What is in the editor, and below the text as it was read."""
        self._text = ""
        self._quiet = False
        self._make_widgets()
        self._lay_out()
        cockpit.themes.changed.connect(self._dress)
        self._dress(cockpit.themes.theme)
        cockpit.bridge.in_background(
            self.find_files, self._found, lambda sentence: self._say(sentence, "error"), owner=self
        )

    def _make_widgets(self) -> None:
        tr, words = self.tr, self._words
        self.choice = CalmCombo()
        self.choice.setEditable(True)
        self.choice.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.choice.setAccessibleName(words.title)
        self.choice.setToolTip(words.choose)
        let_shrink(self.choice)
        self.choice.editTextChanged.connect(self._chosen)
        self.browse = QToolButton()
        self.browse.setToolTip(words.browse)
        self.browse.setAccessibleName(tr("Browse for {field}").format(field=words.title))
        self.browse.setFixedSize(RESET_WIDTH, RESET_WIDTH)
        self.browse.clicked.connect(self.open_dialog)
        self.edit = QPushButton(tr("Edit…"))
        self.edit.setToolTip(words.edit)
        self.edit.clicked.connect(self.open_editor)
        self.name = QLabel()
        self.name.setProperty("role", "muted")
        self.name.setWordWrap(True)
        self.editor = CodeEditor(self._cockpit.themes, words.editor, self.colours)
        self.editor.setMinimumHeight(260)
        self.editor.textChanged.connect(self._edited)
        self.check_button = QPushButton(tr("Check"))
        self.check_button.setToolTip(words.check)
        self.check_button.clicked.connect(self.check)
        self.save_button = QPushButton(tr("Save"))
        self.save_button.clicked.connect(self.save)
        self.close_button = QPushButton(tr("Close"))
        self.close_button.setToolTip(tr("Close the editor; what is not saved is taken back"))
        self.close_button.clicked.connect(self.close_editor)
        self.said = QLabel()
        self.said.setWordWrap(True)
        self.said.hide()

    def _lay_out(self) -> None:
        label = QLabel(self._words.title)
        label.setFixedWidth(LABEL_WIDTH)
        label.setBuddy(self.choice)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(label)
        row.addWidget(self.choice, 1)
        row.addWidget(self.browse)
        open_row = QHBoxLayout()
        open_row.setContentsMargins(LABEL_WIDTH + 8, 0, 0, 0)
        open_row.addWidget(self.edit)
        open_row.addStretch(1)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        for button in (self.check_button, self.save_button):
            buttons.addWidget(button)
        buttons.addStretch(1)
        buttons.addWidget(self.close_button)
        self.drawer = QWidget()
        inside = QVBoxLayout(self.drawer)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(6)
        inside.addWidget(self.name)
        inside.addWidget(self.editor)
        inside.addLayout(buttons)
        self.drawer.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(row)
        layout.addLayout(open_row)
        layout.addWidget(self.drawer)
        layout.addWidget(self.said)

    def _dress(self, theme: Theme) -> None:
        self.browse.setIcon(icon("folder", theme.colour("text")))

    # ---- choosing ------------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        return self.choice.currentText().strip()

    def _found(self, files: OwnFiles) -> None:
        self.files = files
        self._list(files.saved())

    def _list(self, saved: list[Path]) -> None:
        names = [*(self.files.names if self.files is not None else ()), *map(str, saved)]
        shown = self.chosen
        self._quiet = True
        self.choice.clear()
        self.choice.addItems(names)
        self.choice.setEditText(shown)
        self._quiet = False

    def _chosen(self, text: str) -> None:
        if self._quiet:
            return
        self._say("", "muted")
        if self.field in self.group and self.group[self.field].entry != text:
            self.group[self.field].put(text)
        self.changed.emit()

    def follow_field(self) -> None:
        """A field that was filled from a preset or another run is shown."""
        wanted = str(self.group[self.field].entry) if self.field in self.group else ""
        if wanted != self.choice.currentText():
            self._quiet = True
            self.choice.setEditText(wanted)
            self._quiet = False
            self.changed.emit()

    def open_dialog(self) -> QFileDialog:
        dialog = QFileDialog(self, self._words.title, "", self._words.filters)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(self.choice.setEditText)
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def problem(self) -> str:
        """Why a run would not do what is seen here; "" when it would."""
        if self.has_changes and self._is_chosen:
            return self._words.unsaved
        return ""

    # ---- editing -------------------------------------------------------------------------------------------------

    @property
    def is_editing(self) -> bool:
        return self._file is not None

    @property
    def has_changes(self) -> bool:
        return self.is_editing and self.editor.toPlainText() != self._text

    @property
    def _is_chosen(self) -> bool:
        return self.files is not None and self._file == self.files.file_of(self.chosen)

    def open_editor(self, mistake: Mistake | None = None) -> None:
        """Show the file that is chosen; at a mistake where there is one in it."""
        files, chosen = self.files, self.chosen
        if files is None or not chosen:
            return
        at = mistake if isinstance(mistake, Mistake) else None
        file = files.file_of(chosen)
        if at is not None and Path(at.file) != file:
            self._tell_of_another_file(at)
            return
        if file == self._file:
            self._show_editor(at)
            return
        if self.has_changes:
            self._say(self._words.save_first, "warning")
            return
        self._in_background(lambda: files.read(file), lambda text: self._opened(file, text, at))

    def _opened(self, file: Path, text: str, mistake: Mistake | None) -> None:
        self._file, self._text = file, text
        self.editor.setPlainText(text)
        self._say("", "muted")
        self._show_editor(mistake)

    def _show_editor(self, mistake: Mistake | None) -> None:
        self.drawer.show()
        self._edited()
        self.editor.setFocus()
        if mistake is not None:
            self.show_mistake(mistake)

    def close_editor(self) -> None:
        """What is not saved is gone; undo brings nothing back."""
        self._file, self._text = None, ""
        self.editor.clear()
        self.drawer.hide()
        self._say("", "muted")
        self.edit.setFocus()
        self.changed.emit()

    def _edited(self) -> None:
        if self._file is None or self.files is None:
            return
        shipped, changed = self.files.is_shipped(self._file), self.has_changes
        what = self.tr("{name} comes with the worker: it is saved as a copy") if shipped else "{name}"
        state = self.tr(" · not saved") if changed else ""
        self.name.setText(what.format(name=self._file.stem if shipped else self._file) + state)
        self._let_press(self.save_button, changed)
        self.save_button.setText(self.tr("Save a copy") if shipped else self.tr("Save"))
        where = self.tr("Save a copy below {folder}, and choose it").format(folder=self.files.own)
        self.save_button.setToolTip(where if shipped else self._words.saved_tip)
        self.changed.emit()

    def _let_press(self, button: QPushButton, can: bool) -> None:
        """The keys go on in the text when the button that was pressed goes off; they would go to any button nearby."""
        if not can and button.hasFocus():
            self.editor.setFocus()
        button.setEnabled(can)

    def save(self) -> None:
        files, file, text, before = self.files, self._file, self.editor.toPlainText(), self._text
        if files is None or file is None:
            return

        def done(told: tuple[Path, list[Path]]) -> None:
            target, saved = told
            self._file, self._text = target, text
            self._list(saved)
            if target != file:
                self.choice.setEditText(str(target))
            self._edited()
            self._say(self.tr("Saved as {name}.").format(name=target), "good")

        def write() -> tuple[Path, list[Path]]:
            target = files.save(file, text, before)
            return target, files.saved()

        self._in_background(write, done)

    # ---- checking ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Have the worker's dry run read what stands in the editor."""
        files, file, text, is_same = self.files, self._file, self.editor.toPlainText(), not self.has_changes
        if files is None or file is None:
            return
        self.editor.forget_mistake()
        self._let_press(self.check_button, False)
        self._say(self._words.checking, "muted")

        def ask() -> tuple[str, Path]:
            if is_same:
                return self._refusal(file), file
            # Beside the file where it is one's own, because what it includes is looked for there.
            folder = None if files.is_shipped(file) or not file.parent.is_dir() else file.parent
            with tempfile.NamedTemporaryFile(
                "w", suffix=files.suffix, prefix=".check-", dir=folder, encoding="utf-8"
            ) as copy:
                copy.write(text)
                copy.flush()
                return self._refusal(Path(copy.name)), Path(copy.name)

        def done(answer: tuple[str, Path]) -> None:
            self.check_button.setEnabled(True)
            sentence, checked = answer
            mistake = self.mistake_in(sentence)
            if mistake is not None and Path(mistake.file) != checked:
                self._tell_of_another_file(mistake)
            elif mistake is not None:
                self.show_mistake(mistake)
            elif sentence:
                self._say(sentence, "error")
            else:
                self._say(self._words.fine, "good")

        def failed(sentence: str) -> None:
            self.check_button.setEnabled(True)
            self._say(self.tr("Not checked: {why}").format(why=sentence), "warning")

        self._cockpit.bridge.in_background(ask, done, failed, owner=self)

    def _refusal(self, file: Path) -> str:
        """What the worker has against a file, "" for nothing. What it has against anything else does not matter
        here: it reads such files first."""
        try:
            self._queries.dry_run(self._entry.type, dry_config(self._entry, {self.field: str(file)}))
        except ToolRefusedError as error:
            sentence = str(error)
            return sentence if self.mistake_in(sentence) or sentence.startswith(self.names_the_file) else ""
        return ""

    def _tell_of_another_file(self, mistake: Mistake) -> None:
        """One that the file includes, or another one: its line is not among those that are seen."""
        told = self.tr("{file}, line {line}, column {column}: {what}")
        place = {"file": mistake.file, "line": mistake.line, "column": mistake.column}
        self._say(told.format(what=mistake.what, **place), "error")

    def show_mistake(self, mistake: Mistake) -> None:
        """Mark it in the editor, which shows the file."""
        self.editor.show_mistake(mistake)
        told = self.tr("Line {line}, column {column}: {what}")
        self._say(told.format(line=mistake.line, column=mistake.column, what=mistake.what), "error")

    def _in_background(self, what: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._cockpit.bridge.in_background(what, done, lambda sentence: self._say(sentence, "error"), owner=self)

    def _say(self, sentence: str, role: str) -> None:
        tell(self.said, sentence, role)


def dry_config(entry: WorkerEntry, params: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run that is only asked about, with an environment that is always there."""
    algo, offered = next(iter(entry.algorithms.items()))
    own = {"algo": algo, "env_id": offered.example_env or "", "seed": 1}
    request = RunRequest(entry.type, entry.module, "dry-run", settings_of(own, dict(params)))
    return request.config()
