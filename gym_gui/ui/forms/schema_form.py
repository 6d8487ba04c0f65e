"""The form for a worker that has none of its own: fields from its manifest and its schema, or settings by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.services.run_request import RunRequest, default_name, is_numbered
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.config_entries import checkpoints_in, hardware_in, remarks_in, typed
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec, from_schema
from gym_gui.ui.forms.flag_fields import checkpoint_fields
from gym_gui.ui.forms.kept import Kept
from gym_gui.ui.forms.kept_note import KeptNote
from gym_gui.ui.forms.key_value_editor import KeyValueEditor
from gym_gui.ui.forms.layouts import Columns, Section
from gym_gui.ui.forms.run_fields import checkpoint_artifacts, hardware_fields, note_fields, request_options
from gym_gui.ui.forms.settings_of import START_MODES, Start, mapping, parts_of, settings_of
from gym_gui.ui.forms.start_panel import StartPanel
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.forms.worker_page_panel import WorkerPagePanel
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.validations.config_problems import field_of

_OWN = ("algo", "env_id", "dataset", "seed", "total_timesteps")
_SETS = "requirements"
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)")


class SchemaTrainForm(TrainForm):
    """Asks for the algorithm, what every run has, what the worker's JSON schema names, and where the run begins when
    the worker can begin from a checkpoint."""

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__(cockpit, entry, queries)
        self._schema: dict[str, Any] | None = None
        self._asked = False
        self._wanted: dict[str, Any] = {}
        """Settings that wait for their fields."""
        self.run = FieldGroup(cockpit.themes, self._run_fields())
        self.settings = FieldGroup(cockpit.themes)
        self.pairs = KeyValueEditor()
        modes = [mode for mode in START_MODES if getattr(entry.capabilities, mode)]
        self.start = StartPanel(cockpit.themes, modes=modes) if modes else None
        """None for a worker that declares neither to resume nor to warm-start."""
        self.hardware = FieldGroup(cockpit.themes, hardware_fields(gpu=True))
        self.remarks = FieldGroup(cockpit.themes, note_fields())
        saves = entry.capabilities.checkpoint
        self.checkpoints = FieldGroup(cockpit.themes, checkpoint_fields()) if saves else None
        """None for a worker that writes none."""
        self.make_own_parts()
        parts = (
            self.run,
            *self.setting_groups(),
            self.pairs,
            self.start,
            self.checkpoints,
            self.hardware,
            self.remarks,
        )
        for part in (part for part in parts if part is not None):
            part.changed.connect(self.refresh)
        self.about = QLabel(self.entry.summary)
        self.about.setWordWrap(True)
        self.about.setProperty("role", "muted")
        self.kept_note = KeptNote()
        self.kept_note.changed.connect(self._kept_changed)
        self.page = WorkerPagePanel(cockpit, entry.type, queries)
        self.sections: dict[str, Section] = {}
        self.gpus_changed()
        self.begin(self._content())
        self._ask_schema()
        self._ask_environments()

    # ---- for the form of one worker ------------------------------------------------------------------------------

    def make_own_parts(self) -> None:
        """Make what this worker's form has beside the usual; called before anything is laid out."""

    def setting_groups(self) -> list[FieldGroup]:
        """The groups that share the worker's settings."""
        return [self.settings]

    def share_out(self, fields: list[FieldSpec]) -> None:
        """Give each group the fields that it asks for."""
        self.settings.set_fields(fields)

    def setting_sections(self) -> list[Section]:
        """What stands below the run itself."""
        return [self._section("settings", self.tr("Settings of the worker"), self.settings, self.pairs)]

    def more_sections(self) -> list[Section]:
        """What stands beside, below hardware and extras."""
        return []

    def run_parts(self) -> list[QWidget]:
        """What stands in the first section."""
        return [self.about, self.run, self.kept_note]

    def own_values(self) -> dict[str, Any]:
        """What every run has, as it stands in the form: algorithm, environment or dataset, seed, budget, name."""
        return self.run.values()

    def put_own(self, entries: Mapping[str, Any]) -> None:
        """Take these entries for what every run has."""
        self.run.put(entries)

    # ---- making --------------------------------------------------------------------------------------------------

    def _content(self) -> QWidget:
        tr = self.tr
        left = [self._section("run", tr("Run"), *self.run_parts()), *self.setting_sections()]
        left.append(self._section("sweep", tr("Sweep"), self.sweep))
        self.sections["sweep"].set_open(False)
        right = [
            *([self._section("start", tr("Start"), self.start)] if self.start is not None else []),
            *(
                [self._section("artifacts", tr("Checkpoints"), self.checkpoints)]
                if self.checkpoints is not None
                else []
            ),
            self._section("hardware", tr("Hardware and limits"), self.hardware),
            *([self._section("extras", tr("Extras"), self.extras)] if self.extras is not None else []),
            *self.more_sections(),
            self._section("remarks", tr("Tags, notes and names"), self.remarks),
            self._section("notes", tr("Dry-run results"), self.notes_panel),
            self._section("documentation", tr("About the worker"), self.page),
        ]
        self.sections["documentation"].hide()
        self.page.found.connect(self.sections["documentation"].setVisible)
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.addWidget(Columns(left, right))
        layout.addStretch(1)
        return content

    def _section(self, name: str, title: str, *widgets: QWidget) -> Section:
        section = self.sections[name] = Section(title)
        section.add(*widgets)
        return section

    def _run_fields(self) -> list[FieldSpec]:
        tr, needs = self.tr, self.entry.needs
        algorithms = self.entry.algorithms
        fields = []
        if names := tuple(algorithms):
            help_text = "\n".join(f"{name}: {one.summary}" for name, one in algorithms.items())
            fields.append(FieldSpec("algo", tr("Algorithm"), "choice", names[0], help_text, choices=names))
        fields.append(
            FieldSpec("run_name", tr("Run name"), help=tr("What to call the run"), placeholder=self.entry.type)
        )
        if "env" in needs or not needs:
            example = next((one.example_env for one in algorithms.values() if one.example_env), None) or ""
            what = tr("What to train on") if "env" in needs else tr("What to train on, when the worker needs it")
            hint = tr("e.g. {env}").format(env=example) if example else ""  # a name alone would look like a value
            fields.append(
                FieldSpec(
                    "env_id",
                    tr("Environment"),
                    help=what,
                    required="env" in needs,
                    placeholder=hint,
                    short_placeholder=tr("Gymnasium id"),
                )
            )
        if "dataset" in needs:
            fields.append(FieldSpec("dataset", tr("Dataset"), help=tr("What to learn from"), required=True))
        return [
            *fields,
            FieldSpec("seed", tr("Seed"), "int", 1, tr("Seed of everything random"), least=0),
            FieldSpec(
                "total_timesteps", tr("Total timesteps"), "int", None, tr("How long to train"), least=1, unit="steps"
            ),
        ]

    def _groups(self) -> Iterator[FieldGroup]:
        yield from (self.run, *self.setting_groups(), self.hardware, self.remarks)
        if self.checkpoints is not None:
            yield self.checkpoints

    def gpus_changed(self) -> None:
        """A worker that cannot do without a GPU reserves one; any other may, where there is one."""
        if self.entry.capabilities.gpu_required:
            self.hardware["cuda"].put(True)
            self.hardware["cuda"].forbid(self.tr("This worker cannot run without a GPU: one is reserved."))
        else:
            self.hardware["cuda"].forbid(self.no_gpu)

    # ---- the schema ----------------------------------------------------------------------------------------------

    def _ask_schema(self) -> None:
        ask = lambda: self.queries.config_schema(self.entry.type)  # noqa: E731
        self.cockpit.bridge.in_background(ask, self.use_schema, lambda _: self.use_schema(None), owner=self)

    def _ask_environments(self) -> None:
        """What the worker says it can train on is offered while somebody types. The form does without it, too."""
        if "env_id" not in self.run:
            return

        def ask() -> list[str]:
            declared = self.queries.manifest(self.entry.type)
            if not declared.environments and declared.settings.environments_module is None:
                return []  # Gymnasium's whole registry would say nothing of this worker
            return [name for family in self.queries.environments(self.entry.type) for name in family.environments]

        self.cockpit.bridge.in_background(ask, self.run["env_id"].suggest, lambda _: None, owner=self)

    def use_schema(self, schema: Mapping[str, Any] | None) -> None:
        """Ask for what a schema names; without one, for settings by name."""
        self._schema = dict(schema) if schema else None
        self.use_fields([spec for spec in from_schema(self._schema or {}) if spec.name not in _OWN])

    def use_fields(self, fields: list[FieldSpec]) -> None:
        """Ask for these, with what waits for them."""
        self._asked = True
        self.share_out(fields)
        self.settings.setVisible(bool(self.settings.editors))
        self.pairs.setVisible(not fields)
        wanted, self._wanted = self._wanted, {}
        self._put_settings(wanted)
        self.refresh()

    def _put_settings(self, wanted: Mapping[str, Any]) -> None:
        if not self._asked:
            self._wanted = dict(wanted)
            return
        if not self._has_fields:
            self.pairs.put(wanted)
        for group in self.setting_groups():
            editors = group.editors.items()
            group.put({name: editor.spec.shown(wanted[name]) for name, editor in editors if name in wanted})

    @property
    def _has_fields(self) -> bool:
        return any(group.editors for group in self.setting_groups())

    def _settings_typed(self) -> dict[str, Any]:
        if not self._asked:
            return dict(self._wanted)
        if not self._has_fields:
            return dict(self.pairs.entries())
        return {name: entry for group in self.setting_groups() for name, entry in group.entries().items()}

    # ---- the form ------------------------------------------------------------------------------------------------

    def request(self) -> RunRequest:
        run, kept = self.own_values(), self.kept_note.kept
        own = {name: run[name] for name in _OWN if run.get(name) not in (None, "")}
        if not kept.has_algorithm:
            own.pop("algo", None)
        given = self._settings_given() if self._has_fields else self.pairs.values()
        params = {key: value for key, value in given.items() if value is not None or self._means_none(key)}
        start = self.start.start() if self.start is not None else None
        options = request_options(self.hardware, self.remarks)
        saving = checkpoint_artifacts(self.checkpoints) if self.checkpoints is not None else {}
        return RunRequest(
            worker_type=self.entry.type,
            module=self.entry.module,
            run_name=self.name_for(run["run_name"], self._usual_name(own, start)),
            settings=settings_of(own, params, start, {**kept.extras, **self.extra_sets()}, kept.choices),
            bundle=kept.bundle,
            artifacts={**kept.artifacts, **saving},
            **{**options, "gpus": 1 if self._wants_gpu() else 0},
        )

    def _settings_given(self) -> dict[str, Any]:
        return {name: value for group in self.setting_groups() for name, value in group.values().items()}

    def _means_none(self, name: str) -> bool:
        """Whether an empty field says None: left out, the worker would take the default."""
        editor = next((group[name] for group in self.setting_groups() if name in group), None)
        return editor is not None and editor.spec.optional and editor.is_changed

    def _usual_name(self, own: Mapping[str, Any], start: Start | None) -> str:
        return default_name(own.get("algo") or self.entry.type, settings_of(own, {}, start))

    def _kept_changed(self) -> None:
        if "algo" in self.run:
            why = self.tr("What is taken over from another run stands in its place.")
            self.run["algo"].forbid("" if self.kept_note.kept.has_algorithm else why)
        self.refresh()

    def _wants_gpu(self) -> bool:
        cuda = self.hardware["cuda"]
        return self.entry.capabilities.gpu_required or (cuda.entry is True and not cuda.why_not)

    def field_problems(self) -> dict[str, str]:
        found = {name: sentence for group in self._groups() for name, sentence in group.problems().items()}
        if self.start is not None:
            found |= self.start.problems()
        problem = self.pairs.problem() if self._asked and not self._has_fields else ""
        return {**found, self.tr("settings"): problem} if problem else found

    def waiting(self) -> str:
        return "" if self._asked else self.tr("Reading what the worker takes…")

    def searchable(self) -> list[FieldGroup]:
        return self.setting_groups()

    def editor_of(self, field: str) -> FieldEditor | None:
        name = field_of(field)
        if name == "checkpoint" and self.start is not None:
            return self.start.path
        return next((group[name] for group in self._groups() if name in group), None)

    def titles(self) -> dict[str, str]:
        named = {name: editor.spec.title for group in self._groups() for name, editor in group.editors.items()}
        return {**named, "checkpoint": self.tr("The checkpoint")}

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        self.run["run_name"].hint(request.run_name)
        self.page.show_page(str(self.run["algo"].entry) if "algo" in self.run else "")
        if self.start is not None:
            wrong = problems.get("checkpoint", "")
            self.start.path.tell(f"{self.titles()['checkpoint']} {wrong}" if wrong else "")

    def tell_refusal(self, sentence: str) -> None:
        super().tell_refusal(sentence)
        editor = self._editor_named_in(sentence)
        if editor is None:
            self.show_notes()
            return
        editor.tell(sentence)
        self.area.ensureWidgetVisible(editor)

    def _editor_named_in(self, sentence: str) -> FieldEditor | None:
        """The field whose flag stands first in a worker's sentence; without a flag, one whose entry is quoted."""
        editors = [one for group in self._groups() for one in group.editors.items()]
        flags = {name.replace("_", "-"): editor for name, editor in editors}
        named = (flags[flag] for flag in _FLAG.findall(sentence) if flag in flags)
        quoted = (editor for _, editor in editors if editor.entry and repr(str(editor.entry)) in sentence)
        return next(chain(named, quoted), None)

    def show_notes(self) -> None:
        self.area.ensureWidgetVisible(self.notes_panel)

    def show_extras(self) -> None:
        section = self.sections.get("extras")
        if section is not None:
            section.set_open(True)
            self.bring_into_sight(section)

    def set_checkpoint(self, path: str, kind: str, algo: str = "", env_id: str = "") -> None:
        if self.start is None:
            return
        entries = {"algo": algo if algo in self.entry.algorithms else "", "env_id": env_id}
        for name, entry in entries.items():
            if entry and name in self.run:
                self.run[name].put(entry)
        self.sections["start"].set_open(True)
        self.start.set_checkpoint(path, kind)
        self.area.ensureWidgetVisible(self.start)

    # ---- memory --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "run": self.run.entries(),
            "settings": self._settings_typed(),
            "start": self.start.entries() if self.start is not None else {},
            "sets": self.extras.chosen() if self.extras is not None else [],
            "kept": self.kept_note.kept.as_state(),
            "checkpoints": self.checkpoints.entries() if self.checkpoints is not None else {},
            "hardware": self.hardware.entries(),
            "remarks": self.remarks.entries(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, group in (("run", self.run), ("hardware", self.hardware), ("remarks", self.remarks)):
            group.put(mapping(state.get(name)))
        if self.checkpoints is not None:
            self.checkpoints.put(mapping(state.get("checkpoints")))
        self._put_settings(mapping(state.get("settings")))
        self.kept_note.keep(Kept.from_state(mapping(state.get("kept"))))
        if self.start is not None:
            self.start.put(mapping(state.get("start")))
        self._put_sets(state.get("sets"))

    def fill(self, config: Mapping[str, Any]) -> None:
        parts = parts_of(config["metadata"]["worker"]["config"])
        name = str(config.get("run_name") or "")
        entries = {key: typed(value) for key, value in parts.own.items()}
        self.put_own(
            {**entries, "run_name": "" if is_numbered(name, self._usual_name(parts.own, parts.start)) else name}
        )
        beside = {key: value for key, value in parts.program.items() if key not in self.entry.choices}
        self._put_settings({**beside, **parts.params})
        if self.start is not None:
            start = parts.start
            self.start.put({"kind": start.mode, "checkpoint": start.checkpoint} if start is not None else {})
        self._put_sets(parts.extras.get(_SETS))
        self.kept_note.keep(
            Kept.from_config(
                config,
                self.entry.choices,
                but_extras=(_SETS,) if self.extras is not None else (),
                but=("checkpoints",) if self.checkpoints is not None else (),
            )
        )
        if self.checkpoints is not None:
            self.checkpoints.put(checkpoints_in(config))
        self.hardware.put(hardware_in(config))
        self.remarks.put(remarks_in(config))

    def _put_sets(self, names: Any) -> None:
        if self.extras is not None:
            self.extras.put(names if isinstance(names, list) else [])
