"""The form for a worker that has none of its own: fields from its schema, or settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.services.run_request import RunRequest, default_name
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec, from_schema
from gym_gui.ui.forms.key_value_editor import KeyValueEditor
from gym_gui.ui.forms.layouts import Columns, Section
from gym_gui.ui.forms.run_fields import hardware_fields, note_fields, request_options
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.validations.config_problems import field_of

_OWN = frozenset({"algo", "env_id", "seed", "total_timesteps"})


class SchemaTrainForm(TrainForm):
    """Asks for the algorithm, what every run has, and what the worker's JSON schema names."""

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__(cockpit, entry, queries)
        self._schema: dict[str, Any] | None = None
        self._asked = False
        self._wanted: dict[str, Any] = {}
        """Settings that wait for their fields."""
        self.run = FieldGroup(cockpit.themes, self._run_fields())
        self.settings = FieldGroup(cockpit.themes)
        self.pairs = KeyValueEditor()
        self.hardware = FieldGroup(cockpit.themes, hardware_fields(gpu=False))
        self.remarks = FieldGroup(cockpit.themes, note_fields())
        for part in (self.run, self.settings, self.pairs, self.hardware, self.remarks):
            part.changed.connect(self.refresh)
        self.about = QLabel(self._about())
        self.about.setWordWrap(True)
        self.about.setProperty("role", "muted")
        self.begin(self._content())
        self._ask_schema()

    def _content(self) -> QWidget:
        sections = [
            (self.tr("Run"), (self.about, self.run)),
            (self.tr("Settings of the worker"), (self.settings, self.pairs)),
            (self.tr("Resources"), (self.hardware,)),
            (self.tr("Remarks"), (self.remarks,)),
            (self.tr("Notes"), (self.notes_panel,)),
        ]
        made = []
        for title, widgets in sections:
            section = Section(title)
            section.add(*widgets)
            made.append(section)
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.addWidget(Columns(made[:2], made[2:]))
        layout.addStretch(1)
        return content

    def _run_fields(self) -> list[FieldSpec]:
        names = tuple(self.entry.algorithms)
        help_text = "\n".join(f"{name}: {one.summary}" for name, one in self.entry.algorithms.items())
        fields = [
            FieldSpec(
                "run_name", self.tr("Run name"), help=self.tr("What to call the run"), placeholder=self.entry.type
            ),
            FieldSpec("env_id", self.tr("Environment"), help=self.tr("What to train on, when the worker needs it")),
            FieldSpec("seed", self.tr("Seed"), "int", 1, self.tr("Seed of everything random"), least=0),
            FieldSpec(
                "total_timesteps",
                self.tr("Total timesteps"),
                "int",
                None,
                self.tr("How long to train"),
                least=1,
                unit="steps",
            ),
        ]
        if not names:
            return fields
        return [FieldSpec("algo", self.tr("Algorithm"), "choice", names[0], help_text, choices=names), *fields]

    def _about(self) -> str:
        return self.entry.summary

    # ---- the schema ----------------------------------------------------------------------------------------------

    def _ask_schema(self) -> None:
        ask = lambda: self.queries.config_schema(self.entry.type)  # noqa: E731
        self.cockpit.bridge.in_background(ask, self.use_schema, lambda _: self.use_schema(None), owner=self)

    def use_schema(self, schema: Mapping[str, Any] | None) -> None:
        """Ask for what a schema names; without one, for settings by name."""
        self._schema, self._asked = dict(schema) if schema else None, True
        fields = [spec for spec in from_schema(self._schema or {}) if spec.name not in _OWN]
        self.settings.set_fields(fields)
        self.settings.setVisible(bool(fields))
        self.pairs.setVisible(not fields)
        wanted, self._wanted = self._wanted, {}
        self._put_settings(wanted)
        self.refresh()

    def _put_settings(self, wanted: Mapping[str, Any]) -> None:
        if not self._asked:
            self._wanted = dict(wanted)
            return
        if self.settings.editors:
            shown = {
                name: editor.spec.shown(wanted[name])
                for name, editor in self.settings.editors.items()
                if name in wanted
            }
            self.settings.put(shown)
        else:
            self.pairs.put(wanted)

    def _settings_typed(self) -> dict[str, Any]:
        if not self._asked:
            return dict(self._wanted)
        return dict(self.settings.entries()) if self.settings.editors else dict(self.pairs.entries())

    # ---- the form ------------------------------------------------------------------------------------------------

    def request(self) -> RunRequest:
        run = self.run.values()
        own = {name: run[name] for name in _OWN if name in run and run[name] not in (None, "")}
        given = self.settings.values() if self.settings.editors else self.pairs.values()
        name = run["run_name"] or default_name(
            own.get("algo") or self.entry.type, own.get("env_id"), own.get("seed") or 0
        )
        return RunRequest(
            worker_type=self.entry.type,
            module=self.entry.module,
            run_name=name,
            settings={**own, **{key: value for key, value in given.items() if value is not None}},
            **request_options(self.hardware, self.remarks),
        )

    def field_problems(self) -> dict[str, str]:
        found = {
            **self.run.problems(),
            **self.settings.problems(),
            **self.hardware.problems(),
            **self.remarks.problems(),
        }
        problem = self.pairs.problem() if self._asked and not self.settings.editors else ""
        return {**found, self.tr("settings"): problem} if problem else found

    def waiting(self) -> str:
        return "" if self._asked else self.tr("Reading what the worker takes…")

    def editor_of(self, field: str) -> FieldEditor | None:
        groups = (self.run, self.settings, self.hardware, self.remarks)
        return next((group[field_of(field)] for group in groups if field_of(field) in group), None)

    def titles(self) -> dict[str, str]:
        groups = (self.run, self.settings, self.hardware, self.remarks)
        return {name: editor.spec.title for group in groups for name, editor in group.editors.items()}

    def state(self) -> dict[str, Any]:
        return {
            "run": self.run.entries(),
            "settings": self._settings_typed(),
            "hardware": self.hardware.entries(),
            "remarks": self.remarks.entries(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, group in (("run", self.run), ("hardware", self.hardware), ("remarks", self.remarks)):
            group.put(_mapping(state.get(name)))
        self._put_settings(_mapping(state.get("settings")))

    def fill(self, config: Mapping[str, Any]) -> None:
        worker = dict(config["metadata"]["worker"]["config"])
        own = {name: worker.pop(name) for name in _OWN if name in worker}
        entries = {name: str(value) for name, value in own.items() if value is not None}
        self.run.put({**entries, "run_name": str(config.get("run_name") or "")})
        self._put_settings(worker)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
