"""One field of a form: its name, an editor, a way back to the default, and under it what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QStringListModel, Qt, pyqtSignal
from PyQt6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QCompleter,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from gym_gui.services.sweeps.entries import suggested
from gym_gui.ui.forms.field_spec import Entry, FieldError, FieldSpec
from gym_gui.ui.icons import icon
from gym_gui.ui.styling import let_shrink, set_style_property
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.completions import close_when_complete
from gym_gui.ui.widgets.hinted_line import HintedLine

LABEL_WIDTH = 118
RESET_WIDTH = 26


class FieldEditor(QWidget):
    """``changed()`` follows every edit by a person and every :meth:`put`.

    A field that is not at its default is marked and can be reset; :meth:`tell` puts a sentence under it.
    """

    changed = pyqtSignal()

    def __init__(self, spec: FieldSpec, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.spec = spec
        self._themes = themes
        self._told = ""
        self._why_not = ""
        self.label = QLabel(spec.title.replace("&", "&&"))
        self.label.setWordWrap(True)
        self.label.setMinimumWidth(LABEL_WIDTH)
        self.label.setMaximumWidth(LABEL_WIDTH)
        self.editor = self._make_editor()
        self.label.setBuddy(self.editor)
        self.reset_button = QToolButton()
        self.reset_button.setAutoRaise(True)
        self.reset_button.setFixedSize(RESET_WIDTH, RESET_WIDTH)
        self.reset_button.clicked.connect(self.reset)
        self.error = QLabel()
        self.error.setWordWrap(True)
        self.error.setProperty("role", "error")
        self.error.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.error.hide()
        self.range_button: QToolButton | None = None
        """Beside the editor while a form searches settings; :meth:`offer_range` makes it."""
        self.range_line: QLineEdit | None = None
        self._range_told = ""
        self._is_touched = False
        """Whether something was put in since it was made or reset: until then nobody is blamed for an empty field."""
        self._lay_out()
        self._describe()
        themes.changed.connect(self._dress)
        self._dress(themes.theme)
        self._refresh()

    # ---- values --------------------------------------------------------------------------------------------------

    @property
    def entry(self) -> Entry:
        """What stands in the editor."""
        if isinstance(self.editor, QCheckBox):
            return self.editor.isChecked()
        return self.editor.currentText() if isinstance(self.editor, QComboBox) else self.editor.text()

    @property
    def is_changed(self) -> bool:
        return self.spec.differs(self.entry)

    def put(self, entry: Entry) -> None:
        if isinstance(self.editor, QCheckBox):
            self.editor.setChecked(entry is True or str(entry).lower() == "true")
        elif isinstance(self.editor, QComboBox):
            shown = str(self.spec.shown(entry) if self.spec.is_open else entry)
            if self.spec.is_open and self.editor.findText(shown) < 0:
                self.editor.addItem(shown)
            self.editor.setCurrentText(shown)
        else:
            self.editor.setText(str(entry))

    def reset(self) -> None:
        self.put(self.spec.start)
        self._is_touched = False
        self._refresh()

    def value(self) -> object:
        """The entry as its type. Raises :class:`FieldError`."""
        return self.spec.read(self.entry)

    def problem(self) -> str:
        """What is wrong with the entry itself, "" when nothing is."""
        try:
            self.value()
        except FieldError as error:
            return str(error)
        return ""

    # ---- ranges --------------------------------------------------------------------------------------------------

    @property
    def has_range(self) -> bool:
        """Whether several values are to be tried instead of the one."""
        return self.range_button is not None and self.range_button.isChecked()

    @property
    def range_entry(self) -> str:
        return self.range_line.text() if self.range_line is not None else ""

    def offer_range(self, offered: bool) -> None:
        """Show a button that puts a range in the place of the value, or take it away with what it showed."""
        if offered and self.range_button is None:
            self._make_range()
        if self.range_button is None or self.range_line is None:
            return
        self.range_button.setVisible(offered)
        shown = offered and self.has_range
        self.range_line.setVisible(shown)
        self.editor.setVisible(not shown)
        keep = self.reset_button.sizePolicy()
        keep.setRetainSizeWhenHidden(not shown)  # a range is longer than a value, and takes its room
        self.reset_button.setSizePolicy(keep)
        self._refresh()

    def put_range(self, entry: str) -> None:
        """Take a range, or with "" none."""
        if not entry and self.range_button is None:
            return
        hidden = self.range_button is None
        if hidden:
            self._make_range()
        assert self.range_button is not None and self.range_line is not None
        self.range_line.setText(entry)
        self.range_button.setChecked(bool(entry))
        if hidden:
            self.offer_range(False)

    def tell_range(self, sentence: str) -> None:
        """Say what is wrong with the range; "" takes it back."""
        if sentence != self._range_told:
            self._range_told = sentence
            self._refresh()

    def _make_range(self) -> None:
        self.range_line, self.range_button = HintedLine([self.tr("1 to 10, or values")]), QToolButton()
        self.range_line.setAccessibleName(self.tr("Range of {field}").format(field=self.spec.title))
        self.range_line.setToolTip(
            self.tr("What to try: 1e-5 to 1e-2 log, 1 to 10 step 2, or values with commas between them")
        )
        self.range_line.setMinimumWidth(60)
        self.range_button.setCheckable(True)
        self.range_button.setAutoRaise(True)
        self.range_button.setFixedSize(RESET_WIDTH, RESET_WIDTH)
        self.range_button.setIcon(icon("search", self._themes.theme.colour("accent")))
        self.range_button.setToolTip(self.tr("Search this setting: give it a range instead of one value"))
        self.range_button.setAccessibleName(self.tr("Search {field}").format(field=self.spec.title))
        grid = self.layout()
        assert isinstance(grid, QGridLayout)
        grid.addWidget(self.range_line, 0, 1, 1, 2)
        grid.addWidget(self.range_button, 0, 3)
        self.range_line.hide()
        self.range_line.textChanged.connect(self._edited)
        self.range_button.toggled.connect(self._range_toggled)
        self.range_button.clicked.connect(self._range_asked)

    def _range_toggled(self, on: bool) -> None:
        assert self.range_line is not None
        if on and not self.range_line.text():
            default = self.spec.default
            self.range_line.setText(suggested(self.spec.kind, default, self.spec.meanings or self.spec.choices))
            self.range_line.setCursorPosition(0)
        self.offer_range(True)
        self.changed.emit()

    def _range_asked(self, on: bool) -> None:
        """By a click or a key: what is typed next is the range."""
        if on and self.range_line is not None:
            self.range_line.setFocus()
            self.range_line.selectAll()

    # ---- looks ---------------------------------------------------------------------------------------------------

    def tell(self, sentence: str) -> None:
        """Say what is wrong with the field, besides what the entry itself shows; "" takes it back."""
        self._told = sentence
        self._refresh()

    def forbid(self, reason: str) -> None:
        """Disable the editor and say why; "" allows it again."""
        self._why_not = reason
        self.editor.setEnabled(not reason)
        self._describe()
        self._refresh()

    def hint(self, text: str) -> None:
        """What an empty field stands for."""
        if isinstance(self.editor, HintedLine):
            self.editor.set_hints([text])
            self._describe()  # a narrow form cuts it; the tooltip has the whole of it

    @property
    def why_not(self) -> str:
        return self._why_not

    def suggest(self, words: Sequence[str]) -> None:
        """Offer these while somebody types into a line; anything else may be typed all the same."""
        if not isinstance(self.editor, QLineEdit):
            return
        known = self.editor.completer()
        model = known.model() if known is not None else None
        if isinstance(model, QStringListModel):  # another completer would delete the one that may be typed into
            if model.stringList() != list(words):
                model.setStringList(list(words))
        else:
            completer = QCompleter(list(words), self.editor)
            completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            self.editor.setCompleter(completer)
            close_when_complete(self.editor, completer)

    def offer(self, words: Sequence[str]) -> None:
        """Offer these beside the choices of an open field; what is chosen stays so, known or not."""
        if not isinstance(self.editor, QComboBox):
            return
        chosen = self.editor.currentText()
        wanted = list(dict.fromkeys([*self.spec.choices, *words, chosen]))
        if wanted == [self.editor.itemText(number) for number in range(self.editor.count())]:
            return
        self.editor.blockSignals(True)  # nobody chose anything else
        self.editor.clear()
        self.editor.addItems(wanted)
        self.editor.setCurrentText(chosen)
        self.editor.blockSignals(False)

    def _make_editor(self) -> QLineEdit | QComboBox | QCheckBox:
        if self.spec.kind == "bool":
            check = QCheckBox()
            check.setChecked(self.spec.start is True)
            check.toggled.connect(self._edited)
            return check
        if self.spec.kind == "choice":
            combo = CalmCombo()
            let_shrink(combo)
            combo.addItems([*([""] if self.spec.optional else []), *self.spec.choices])
            combo.setCurrentText(str(self.spec.start))
            combo.currentTextChanged.connect(self._edited)
            return combo
        hint = self.spec.placeholder or (self.tr("none") if self.spec.optional else self._meant_when_empty())
        line = HintedLine([hint, *filter(None, [self.spec.short_placeholder])], str(self.spec.start))
        line.textChanged.connect(self._edited)
        if self.spec.unit:
            _put_unit(line, self.spec.unit)
        return line

    def _meant_when_empty(self) -> str:
        """A number that is taken out is not given, so the default holds."""
        is_number = self.spec.kind in ("int", "float")
        return str(self.spec.start) if is_number and not self.spec.required else ""

    def _lay_out(self) -> None:
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(2)
        grid.addWidget(self.label, 0, 0)
        grid.addWidget(self.editor, 0, 1)
        self._place_buttons(grid)
        grid.addWidget(self.error, 1, 1, 1, 2)
        grid.setColumnStretch(1, 1)
        keep = QSizePolicy(self.reset_button.sizePolicy())
        keep.setRetainSizeWhenHidden(True)
        self.reset_button.setSizePolicy(keep)
        self.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.editor.setMinimumWidth(60)

    def _place_buttons(self, grid: QGridLayout) -> None:
        grid.addWidget(self.reset_button, 0, 2)

    def _describe(self) -> None:
        default = self.spec.start
        empty = (self.editor.placeholderText() if isinstance(self.editor, QLineEdit) else "") or self.tr("empty")
        shown = {True: self.tr("on"), False: self.tr("off"), "": empty}.get(default, default)
        help_text = self.spec.help or self.spec.title
        default_line = self.tr("Default: {value}").format(value=shown)
        tip = "\n".join(filter(None, [help_text, self.spec.option, default_line, self._why_not]))
        for widget in (self.label, self.editor):
            widget.setToolTip(tip)
        self.editor.setAccessibleName(self.spec.title)
        self.editor.setAccessibleDescription(self.spec.help)
        self.reset_button.setToolTip(self.tr("Back to the default: {value}").format(value=shown))
        self.reset_button.setAccessibleName(self.tr("Reset {field}").format(field=self.spec.title))

    def _dress(self, theme: Theme) -> None:
        self.reset_button.setIcon(icon("reset", theme.colour("accent")))
        if self.range_button is not None:
            self.range_button.setIcon(icon("search", theme.colour("accent")))

    def _edited(self, *_: object) -> None:
        self._told = ""
        self._is_touched = True
        self._refresh()
        self.changed.emit()

    def _refresh(self) -> None:
        searched = self.has_range and self.range_line is not None and not self.range_line.isHidden()
        changed = self.is_changed or searched
        self.reset_button.setVisible(self.is_changed and not searched)
        mark = "font-weight: 600;" if changed else ""
        if self.label.styleSheet() != mark:
            self.label.setStyleSheet(mark)  # a font of its own would be lost with the next theme
        self.label.setEnabled(not self._why_not)
        own = self._range_told if searched else self.problem() if self._is_touched or self.entry else ""
        sentence = "" if self._why_not else (own or self._told)
        self.error.setText(f"{self.spec.title} {sentence}" if sentence and not self._told else sentence)
        self.error.setVisible(bool(sentence))
        set_style_property(self.editor, "invalid", bool(sentence))
        if self.range_line is not None:
            set_style_property(self.range_line, "invalid", bool(sentence))


def _put_unit(line: QLineEdit, unit: str) -> None:
    """The unit inside the field, so that all fields of a form are of one width."""
    label = QLabel(unit)
    label.setProperty("role", "muted")
    label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
    layout = QHBoxLayout(line)
    layout.setContentsMargins(0, 0, 4, 0)
    layout.addStretch(1)
    layout.addWidget(label)
    line.setTextMargins(0, 0, label.sizeHint().width() + 6, 0)
