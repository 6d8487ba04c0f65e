"""The part of a form that makes a sweep of a run: which fields have a range, how many trials, and who proposes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtGui import QFontDatabase
from PyQt6.QtWidgets import QCheckBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from gym_gui.services.run_request import RunRequest
from gym_gui.services.sweeps.entries import EntryError, problems_of, space_of, space_text
from gym_gui.services.sweeps.model import POPULATION, PRUNERS, SAMPLERS, SweepSpec
from gym_gui.services.sweeps.space import SpaceError
from gym_gui.services.sweeps.wish import METRIC, SweepWish, WishError, spec_of, sweep_command
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.settings_of import mapping
from gym_gui.ui.forms.text_panels import CommandPreview
from gym_gui.ui.theme import Themes

_KINDS = {"int": "int", "float": "float", "bool": "bool", "choice": ""}
_MOST_ROWS = 10
_OF_POPULATION = ("interval", "quantile", "perturb", "resample")


class SweepPanel(QWidget):
    """``changed()`` follows every edit. Off, it does nothing to the form; on, fields get a button for a range."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._groups: Sequence[FieldGroup] = ()
        self._kept: dict[str, str] = {}
        """Ranges whose fields are not there yet."""
        self._typed: dict[str, str] = {}
        """Those of the fields that were there when the form was last looked at."""
        self._known: dict[str, FieldEditor] = {}
        self.switch = QCheckBox(self.tr("Search settings"))
        self.switch.setToolTip(
            self.tr("Try many settings instead of one run: each field that can be searched gets a button for a range")
        )
        self.switch.toggled.connect(self._toggled)
        self.about = QLabel()
        self.about.setWordWrap(True)
        self.about.setProperty("role", "muted")
        self.fields = FieldGroup(themes, self._fields())
        self.fields.changed.connect(self._arrange)
        self.fields.changed.connect(self.changed)
        self.space = QPlainTextEdit()
        self.space.setReadOnly(True)
        self.space.setTabChangesFocus(True)
        self.space.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.space.setAccessibleName(self.tr("Space file"))
        self.space.setToolTip(self.tr("The file sweep.toml that the command below reads"))
        self.preview = CommandPreview()
        self._inside = (self.fields, self.space, self.preview)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        for widget in (self.switch, self.about, *self._inside):
            layout.addWidget(widget)
        self._arrange()

    def _fields(self) -> list[FieldSpec]:
        tr, usual = self.tr, SweepWish()
        counts = (
            ("trials", tr("Trials"), usual.trials, tr("How many settings to try"), 100_000),
            ("parallel", tr("In parallel"), usual.parallel, tr("Runs at the same time"), 1000),
            ("seeds", tr("Seeds"), usual.seeds, tr("Seeds of a trial that gets to the end"), 1000),
        )
        return [
            *(
                FieldSpec(name, title, "int", value, text, least=1, most=most)
                for name, title, value, text, most in counts
            ),
            FieldSpec("metric", tr("Metric"), default=METRIC, help=tr("What is to get better: a tag that runs log")),
            FieldSpec("minimize", tr("Lower is better"), "bool", False, tr("Search for the lowest value instead")),
            FieldSpec(
                "sampler", tr("Sampler"), "choice", usual.sampler, tr("What proposes settings"), choices=SAMPLERS
            ),
            FieldSpec(
                "pruner",
                tr("Pruner"),
                "choice",
                usual.pruner,
                tr("What stops poor trials early; pbt trains the trials as a population"),
                choices=PRUNERS,
            ),
            *self._of_population(usual),
        ]

    def _of_population(self, usual: SweepWish) -> list[FieldSpec]:
        """Shown with pbt alone."""
        tr = self.tr
        return [
            FieldSpec(
                "interval",
                tr("Interval"),
                "int",
                usual.interval,
                tr("Steps from one judgement of the population to the next; 0 for a tenth of the run"),
                least=0,
                most=10**12,
            ),
            FieldSpec(
                "quantile",
                tr("Replaced"),
                "float",
                usual.quantile,
                tr("The part of the population that goes on as copies of as many of the best"),
                least=0.01,
                most=0.5,
            ),
            FieldSpec(
                "perturb",
                tr("Perturb"),
                "float",
                usual.perturb,
                tr("A copy's numbers are multiplied or divided by this"),
                least=1.001,
                most=100,
            ),
            FieldSpec(
                "resample",
                tr("Resample"),
                "float",
                usual.resample,
                tr("How probably a setting of a copy is drawn from its whole range instead"),
                least=0,
                most=1,
            ),
        ]

    # ---- fields --------------------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        return self.switch.isChecked()

    def attend(self, groups: Sequence[FieldGroup]) -> None:
        """Offer ranges at the fields of these groups, or take them away. May be called at any time, and often."""
        self._groups = groups
        editors = self._editors()
        self._kept |= {name: entry for name, entry in self._typed.items() if name not in editors}
        for name, editor in editors.items():
            if editor is not self._known.get(name):  # it is new, or was made again: what was typed is put back
                self._known[name] = editor
                editor.put_range(self._kept.pop(name, "") or self._typed.get(name, ""))
            editor.offer_range(self.is_on)
        self._typed = {name: editor.range_entry for name, editor in editors.items() if editor.has_range}

    def _editors(self) -> dict[str, FieldEditor]:
        """Those that can be searched."""
        found = {name: editor for group in self._groups for name, editor in group.editors.items()}
        return {name: editor for name, editor in found.items() if editor.spec.kind in _KINDS and not editor.why_not}

    def ranges(self) -> dict[str, str]:
        """What was typed, by setting; those that wait for their fields are not among them."""
        if not self.is_on:
            return {}
        return {name: editor.range_entry for name, editor in self._editors().items() if editor.has_range}

    def flags(self) -> list[dict[str, Any]]:
        """The fields as a script describes its flags: that is what a space is judged by."""
        specs = {name: editor.spec for name, editor in self._editors().items()}
        return [
            {"name": name, "type": _KINDS[spec.kind], "choices": list(spec.meanings or spec.choices)}
            for name, spec in specs.items()
        ]

    def wish(self) -> SweepWish:
        """As it stands; what cannot be read stands at its default."""
        given = {name: value for name, value in self.fields.values().items() if value is not None}
        return SweepWish(**given)

    def spec(self, request: RunRequest, total: int) -> SweepSpec | None:
        """What the daemon would be asked for; None for a plain run, or while something is wrong."""
        if not self.is_on or self.problems(request, total):
            return None
        return spec_of(request.config(), space_of(self.ranges(), self.flags()), self.wish(), total)

    def problems(self, request: RunRequest, total: int) -> dict[str, str]:
        """What is wrong, by field."""
        if not self.is_on:
            return {}
        found = {**problems_of(self.ranges(), self.flags()), **self.fields.problems()}
        if not self.ranges():
            found["sweep"] = self.tr("has nothing to search: give at least one field a range")
        if found:
            return found
        try:
            spec_of(request.config(), space_of(self.ranges(), self.flags()), self.wish(), total)
        except WishError as error:
            return {error.field: str(error)}
        except (SpaceError, EntryError) as error:
            return {"sweep": str(error)}
        return {}

    # ---- looks ---------------------------------------------------------------------------------------------------

    def show_request(self, words: Sequence[str], request: RunRequest, problems: Mapping[str, str]) -> None:
        """Tell each field what is wrong with its range, and show command and file."""
        if not self.is_on:
            return
        ranges = self.ranges()
        for name, editor in self._editors().items():
            editor.tell_range(problems.get(name, "") if name in ranges else "")
        for name, editor in self.fields.editors.items():
            own = editor.problem()
            editor.tell(f"{editor.spec.title}: {problems[name]}" if name in problems and not own else "")
        members = self.tr("The trials are the members of a population: poor ones go on as copies of good ones.")
        searched = self.tr("Searched: {names}").format(names=", ".join(ranges))
        self.about.setText(
            self.tr("Press the magnifier beside a field and give its range: 1e-5 to 1e-2 log, 1 to 10, or 32, 64, 128.")
            if not ranges
            else f"{searched}\n{members}"
            if self.wish().pruner == POPULATION
            else searched
        )
        try:
            text = space_text(ranges)
        except EntryError:
            text = ""
        if text != self.space.toPlainText():
            self.space.setPlainText(text)
            rows = min(max(text.count("\n") + 1, 2), _MOST_ROWS)
            self.space.setFixedHeight(rows * self.space.fontMetrics().lineSpacing() + 26)
        self.preview.show_command(sweep_command(words, request, self.wish(), list(ranges)))

    def _toggled(self, on: bool) -> None:
        self._arrange()
        self.attend(self._groups)
        self.changed.emit()

    def _arrange(self) -> None:
        for widget in self._inside:
            widget.setVisible(self.is_on)
        self.about.setVisible(self.is_on)
        population = self.fields.values().get("pruner") == POPULATION
        for name in _OF_POPULATION:
            self.fields[name].setVisible(population)

    # ---- memory --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        typed = {name: editor.range_entry for name, editor in self._editors().items() if editor.has_range}
        return {"on": self.is_on, "ranges": {**self._kept, **typed}, "fields": self.fields.entries()}

    def put(self, state: Mapping[str, Any]) -> None:
        self.fields.put(mapping(state.get("fields")))
        wanted = {str(name): str(entry) for name, entry in mapping(state.get("ranges")).items()}
        for name, editor in self._editors().items():
            editor.put_range(wanted.pop(name, ""))
        self._kept, self._typed = wanted, {}
        self.switch.setChecked(state.get("on") is True)
