"""What stands in the CleanRL form: its parts, how they are laid out, and what is remembered of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.ui.forms.environment_picker import EnvironmentPicker
from gym_gui.ui.forms.extras_panel import ExtrasPanel
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.flag_fields import artifact_fields, wandb_fields
from gym_gui.ui.forms.layouts import Columns, Section
from gym_gui.ui.forms.parameter_panel import ParameterPanel
from gym_gui.ui.forms.run_fields import hardware_fields, note_fields
from gym_gui.ui.forms.settings_of import mapping
from gym_gui.ui.forms.start_panel import StartPanel
from gym_gui.ui.forms.sweep_panel import SweepPanel
from gym_gui.ui.forms.text_panels import CommandPreview, DocumentationPanel, NotesPanel
from gym_gui.ui.theme import Themes
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.cleanrl.checks import MOST_SEED
from gym_gui.ui.workers.cleanrl.documentation import PAGES, with_steps
from gym_gui.ui.workers.cleanrl.script_picker import ScriptPicker


class CleanRlContent(QWidget):
    """Two columns where there is room. ``changed()`` follows every edit; ``script_changed()`` those of the script."""

    changed = pyqtSignal()
    script_changed = pyqtSignal()

    def __init__(
        self,
        themes: Themes,
        entry: WorkerEntry,
        notes_panel: NotesPanel,
        extras: ExtrasPanel | None,
        sweep: SweepPanel,
    ) -> None:
        super().__init__()
        self.sweep = sweep
        self.extras = extras
        self.picker = ScriptPicker(themes, entry)
        self.environment = EnvironmentPicker()
        self.run = FieldGroup(themes, self._run_fields())
        self.parameters = ParameterPanel(themes)
        self.start = StartPanel(themes)
        self.lane_hint = QLabel(
            self.tr(
                "CleanRL runs skip live telemetry: follow them by their curves, in TensorBoard and in Weights & Biases."
            )
        )
        self.lane_hint.setWordWrap(True)
        self.lane_hint.setProperty("role", "muted")
        self.artifacts = FieldGroup(themes, artifact_fields())
        self.hardware = FieldGroup(themes, hardware_fields(gpu=True))
        self.wandb = FieldGroup(themes, wandb_fields())
        self.wandb_hint = QLabel()
        self.wandb_hint.setWordWrap(True)
        self.wandb_hint.setProperty("role", "muted")
        self.remarks = FieldGroup(themes, note_fields())
        self.preview = CommandPreview()
        self.documentation = DocumentationPanel(themes, PAGES, complete=with_steps)
        self.sections: dict[str, Section] = {}
        self._lay_out(notes_panel)
        self.picker.changed.connect(self.script_changed)
        for group in self.groups().values():
            group.changed.connect(self.changed)
        for follow in (self.environment.changed, self.parameters.changed, self.start.changed):
            follow.connect(self.changed)

    def groups(self) -> dict[str, FieldGroup]:
        """The groups of fields by the name that they are remembered by."""
        return {
            "run": self.run,
            "artifacts": self.artifacts,
            "hardware": self.hardware,
            "wandb": self.wandb,
            "remarks": self.remarks,
        }

    # ---- fields --------------------------------------------------------------------------------------------------

    def problems(self) -> dict[str, str]:
        """What the fields themselves find wrong."""
        found = {**self.run.problems(), **self.parameters.problems(), **self.start.problems()}
        for group in (self.artifacts, self.hardware, self.wandb, self.remarks):
            found |= group.problems()
        return found

    def editor_of(self, field: str) -> FieldEditor | None:
        found = next((group[field] for group in self._all_groups() if field in group), None)
        return found or self.picker.editor_of(field)

    def titles(self) -> dict[str, str]:
        named = {name: editor.spec.title for group in self._all_groups() for name, editor in group.editors.items()}
        return {
            **named,
            "env_id": self.tr("The environment"),
            "algo": self.tr("The algorithm"),
            "script": self.tr("The script"),
            "cleanrl_path": self.tr("The checkout"),
            "checkpoint": self.tr("The checkpoint"),
            "more_flags": self.tr("Other flags"),
        }

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Put what no field can know by itself under the field that it is about."""
        titles = self.titles()
        places = {name: self.picker.editor_of(name) for name in ("algo", "script", "cleanrl_path")}
        places |= {"checkpoint": self.start.path, "more_flags": self.parameters.more}
        for name, editor in places.items():
            if editor is not None:
                editor.tell(f"{titles[name]} {problems[name]}" if name in problems else "")
        self.environment.need("env_id" in problems)

    def point_at(self, sentence: str) -> QWidget | None:
        """Put a refusal of the worker's under the field that it names, which is brought into sight."""
        for group in self._all_groups():
            for name, editor in group.editors.items():
                if re.search(rf"--{re.escape(name.replace('_', '-'))}\b(?!-)", sentence):
                    editor.tell(sentence)
                    return self._unfolded(editor)
        env_id = self.environment.env_id
        if env_id and env_id in sentence:
            self.environment.tell(sentence)
            return self._unfolded(self.environment)
        return None

    def _unfolded(self, widget: QWidget) -> QWidget:
        for section in self.sections.values():
            if section.isAncestorOf(widget):
                section.set_open(True)
        return widget

    def _all_groups(self) -> Iterator[FieldGroup]:
        yield from self.groups().values()
        yield self.parameters.fields

    # ---- memory --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything that was typed apart from the script's parameters, which are remembered for each script."""
        return {
            "script": self.picker.entries(),
            "env_id": self.environment.env_id,
            "more_flags": self.parameters.more.entry,
            "start": self.start.entries(),
            "sets": self.extras.chosen() if self.extras is not None else [],
            "folded": [name for name, section in self.sections.items() if not section.is_open],
            **{name: group.entries() for name, group in self.groups().items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """All of that but the script, which comes first and decides what there is to restore."""
        if isinstance(state.get("env_id"), str):
            self.environment.put(state["env_id"])
        self.parameters.more.put(str(state.get("more_flags") or ""))
        self.start.put(mapping(state.get("start")))
        sets = state.get("sets")
        if self.extras is not None:
            self.extras.put(sets if isinstance(sets, list) else [])
        for name, group in self.groups().items():
            group.put(mapping(state.get(name)))
        folded = state.get("folded")
        if isinstance(folded, list):
            for name, section in self.sections.items():
                section.set_open(name not in folded)

    # ---- making --------------------------------------------------------------------------------------------------

    def _run_fields(self) -> list[FieldSpec]:
        tr = self.tr
        seed_help = tr("Seed of everything random: the same seed gives the same run")
        return [
            FieldSpec("seed", tr("Seed"), "int", 1, seed_help, required=True, least=0, most=MOST_SEED),
            FieldSpec(
                "total_timesteps",
                tr("Total timesteps"),
                "int",
                None,
                tr("Environment steps to train for; 500k and 5e5 mean 500000. Empty: as the script says"),
                least=1,
                most=10**12,
                placeholder=tr("as the script says"),
            ),
            FieldSpec("run_name", tr("Run name"), help=tr("What to call the run; empty: a name that no run has yet")),
        ]

    def _lay_out(self, notes_panel: NotesPanel) -> None:
        tr = self.tr
        left = [
            self._section("run", tr("Algorithm and environment"), self.picker, self.environment, self.run),
            self._section("parameters", tr("Algorithm parameters"), self.parameters),
            self._section("sweep", tr("Sweep"), self.sweep, open_=False),
        ]
        right = [
            self._section("start", tr("Start"), self.start),
            self._section("artifacts", tr("What the run keeps"), self.lane_hint, self.artifacts),
            self._section("hardware", tr("Hardware and limits"), self.hardware, open_=False),
            *([self._section("extras", tr("Extras"), self.extras, open_=False)] if self.extras is not None else []),
            self._section("wandb", tr("Weights & Biases"), self.wandb, self.wandb_hint, open_=False),
            self._section("remarks", tr("Tags, notes and names"), self.remarks, open_=False),
            self._section("command", tr("Command"), self.preview),
            self._section("notes", tr("Dry-run results"), notes_panel),
            self._section("documentation", tr("About the algorithm"), self.documentation),
        ]
        self.columns = Columns(left, right)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.addWidget(self.columns)
        layout.addStretch(1)

    def _section(self, name: str, title: str, *widgets: QWidget, open_: bool = True) -> Section:
        section = Section(title, open_=open_)
        section.add(*widgets)
        section.folded.connect(self.changed)
        self.sections[name] = section
        return section
