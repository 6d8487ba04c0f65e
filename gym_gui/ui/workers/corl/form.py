"""The form for offline runs: a dataset that can be trusted, an algorithm with its own flags, and what comes after the
data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PyQt6.QtCore import QTimer
from PyQt6.QtWidgets import QLabel, QWidget

from gym_gui.services.run_needs import shortages
from gym_gui.services.run_request import RunRequest
from gym_gui.services.worker_tools import ToolError
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec, from_flags
from gym_gui.ui.forms.flag_fields import PLACED_FLAGS, WANDB_FLAGS, wandb_fields, why_not_able, with_script_defaults
from gym_gui.ui.forms.layouts import Section
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.forms.settings_of import mapping
from gym_gui.ui.styling import tell
from gym_gui.ui.workers.corl.dataset_picker import DatasetPicker
from gym_gui.ui.workers.corl.script_source import ScriptSource
from gym_gui.validations.dry_run import DryRun
from mosaic_protocol.worker_manifest import WorkerManifest

MANAGER = "show-datasets"
"""The command that shows the dataset manager; a window without one does without the button."""
LOOK_MILLISECONDS = 800
_DATA = ("best_fraction", "normalize", "normalize_reward", "reward_scale", "reward_bias")
_ONLINE = ("online_steps", "cql_alpha_online", "mixing_ratio")
_JUDGING = ("eval_freq", "n_episodes")
_LENGTHS = ("total_timesteps", "max_timesteps", "num_train_ops", "update_steps")
_OWN_PLACE = PLACED_FLAGS - frozenset(WANDB_FLAGS) | {"dataset", "exp_name"}
_PLACED_OF_CORL = frozenset(
    {*_LENGTHS, "env", "env_name", "dataset_name", "train_seed", "eval_seed", "project", "group", "name"}
)
"""Flags of CORL's scripts that the run's dataset, seed and budget answer, or that name a project nobody is sent to."""
TYPING_MILLISECONDS = 400


class CorlTrainForm(SchemaTrainForm):
    """Fields come from the flags of the algorithm's script, which the worker reads without running it; what was typed
    under a name stays when another algorithm has the same. Nothing is launched on data that is not verified."""

    def make_own_parts(self) -> None:
        themes = self.cockpit.themes
        self._answers: dict[str, dict[str, Any]] = {}
        """What the worker told of each script that was chosen, by its key."""
        self._algo = ""
        """The key of the script whose fields are shown, or asked for."""
        self.source = ScriptSource(themes, self._manifest())
        self.source.changed.connect(self.refresh)
        self._ask_later = QTimer(self)
        self._ask_later.setSingleShot(True)
        self._ask_later.setInterval(TYPING_MILLISECONDS)
        self._ask_later.timeout.connect(self._ask_flags)
        self._looked: tuple[str, ...] = ()
        self.picker = DatasetPicker(self.cockpit)
        self.picker.changed.connect(self.refresh)
        self.picker.manager_wanted.connect(self._show_manager)
        self.data, self.online = FieldGroup(themes), FieldGroup(themes)
        self.judging, self.wandb = FieldGroup(themes), FieldGroup(themes, wandb_fields()[: len(WANDB_FLAGS)])
        self.offline_only, self.rails = QLabel(), QLabel()
        for label, role in ((self.offline_only, "muted"), (self.rails, "warning")):
            label.setWordWrap(True)
            label.setProperty("role", role)
            label.hide()
        self.wandb_hint = QLabel(
            self.tr("Without it, metrics are kept in the run's journal and its TensorBoard files all the same.")
        )
        self.wandb_hint.setWordWrap(True)
        self.wandb_hint.setProperty("role", "muted")
        self._look_later = QTimer(self)
        self._look_later.setSingleShot(True)
        self._look_later.setInterval(LOOK_MILLISECONDS)
        self._look_later.timeout.connect(self._look_at_needs)

    def _manifest(self) -> WorkerManifest | None:
        try:
            return self.queries.manifest(self.entry.type)
        except ToolError:  # the daemon has the worker and this program does not
            return None

    # ---- what stands where ---------------------------------------------------------------------------------------

    def _run_fields(self) -> list[FieldSpec]:
        tr = self.tr
        by_name = {spec.name: spec for spec in super()._run_fields() if spec.name != "dataset"}
        by_name["total_timesteps"] = replace(
            by_name["total_timesteps"],
            title=tr("Updates"),
            help=tr("Gradient updates on the dataset; 20k and 2e4 mean 20000. Empty: as the script says"),
            unit="",
        )
        by_name["env_id"] = FieldSpec(
            "env_id",
            tr("Environment"),
            help=tr("Where the policy is judged, and where it goes on; empty: the dataset's own"),
            placeholder=tr("the data's own"),
        )
        order = ("algo", "total_timesteps", "env_id", "seed", "run_name")
        return [by_name[name] for name in order]

    def run_parts(self) -> list[QWidget]:
        return [self.source, self.picker, self.rails, self.run, self.kept_note]

    def setting_groups(self) -> list[FieldGroup]:
        return [self.data, self.online, self.judging, self.settings, self.wandb]

    def setting_sections(self) -> list[Section]:
        tr = self.tr
        return [
            self._section("online", tr("After the data: in the environment"), self.offline_only, self.online),
            self._section("data", tr("What of the data, and how"), self.data),
            self._section("settings", tr("Algorithm parameters"), self.settings, self.pairs),
            self._section("judging", tr("Judging while it learns"), self.judging),
        ]

    def more_sections(self) -> list[Section]:
        return [self._section("wandb", self.tr("Weights & Biases"), self.wandb, self.wandb_hint)]

    def share_out(self, fields: list[FieldSpec]) -> None:
        places = {id(self.data): _DATA, id(self.online): _ONLINE, id(self.judging): _JUDGING}
        placed = {name for names in (*places.values(), WANDB_FLAGS) for name in names}
        for group in (self.data, self.online, self.judging):
            group.set_fields([spec for spec in fields if spec.name in places[id(group)]])
        self.settings.set_fields([spec for spec in fields if spec.name not in placed])
        by_name = {spec.name: spec for spec in fields}
        through_a_door = self.source.is_corl  # what it logs goes to the run, which can be tracked whatever its flags
        known = WANDB_FLAGS if through_a_door else by_name
        tracked = [spec for spec in wandb_fields() if spec.name in known]
        self.wandb.set_fields(with_script_defaults(tracked, by_name.get))
        text = self.tr("{algo} learns from the data alone; iql, awac, cal_ql, spot and rebrac can go on.")
        if through_a_door:
            text = self.tr("CORL's finetune scripts go on in the environment; flags of their own say for how long.")
        tell(self.offline_only, "" if "online_steps" in self.online else text.format(algo=self._algo), "muted")

    # ---- the algorithm and its flags -----------------------------------------------------------------------------

    def _ask_schema(self) -> None:
        self._follow_algorithm()

    @property
    def _key(self) -> str:
        script = self.source.script()
        if script is None:
            return str(self.run["algo"].entry)
        return "|".join(("corl", script.algo, self.source.folder, script.bundle or ""))

    def _follow_algorithm(self) -> None:
        """Ask for the flags of the script that is chosen now; what was typed waits for them."""
        key = self._key
        if key == self._algo:
            return
        self._wanted, self._asked, self._algo = self._settings_typed(), False, key
        self.run["algo"].setVisible(not self.source.is_corl)
        if key in self._answers:
            self._use_flags(key, self._answers[key])
        elif self.source.is_corl:
            self.source.offer()
            self._ask_later.start()
        else:
            self._ask_flags()

    def _ask_flags(self) -> None:
        key, script = self._algo, self.source.script()
        if self.source.problems():
            return
        settings: dict[str, Any] = {"algo": key} if script is None else script.settings()
        bundle = None if script is None else script.bundle
        ask = lambda: self.queries.describe_flags(self.entry.type, settings, bundle)  # noqa: E731
        failed = lambda sentence: self._no_flags(key, sentence)  # noqa: E731
        self.cockpit.bridge.in_background(ask, lambda told: self._use_flags(key, told), failed, owner=self)

    def _put_settings(self, wanted: Mapping[str, Any]) -> None:
        if self._key != self._algo:
            self._asked = False  # the fields are another script's: these wait for their own
        super()._put_settings(wanted)

    def _use_flags(self, key: str, told: Mapping[str, Any]) -> None:
        self._answers[key] = dict(told)
        if key != self._algo:
            return  # another one was chosen meanwhile
        self.source.tell_problem("")
        fields = from_flags(told.get("flags") or [])
        usual = next((spec.default for spec in fields if spec.name in _LENGTHS), None)
        self.run["total_timesteps"].hint(f"{usual:,}" if isinstance(usual, int) else "")
        can = mapping(told.get("capabilities"))
        if self.start is not None:
            self.start.allow({kind: why_not_able(can, kind) for kind in ("warm_start", "resume")})
        if self.checkpoints is not None:
            self.checkpoints["checkpoints"].forbid(why_not_able(can, "checkpoint"))
        placed = _OWN_PLACE | (_PLACED_OF_CORL if self.source.is_corl else frozenset())
        self.use_fields([spec for spec in fields if spec.name not in placed])

    def _no_flags(self, key: str, sentence: str) -> None:
        if key != self._algo:
            return
        if self.source.is_corl:
            self.source.tell_problem(sentence)
            return
        self.notes_panel.note(self.tr("the flags of {algo} cannot be read: {why}").format(algo=key, why=sentence))
        self.use_fields([])

    # ---- the run -------------------------------------------------------------------------------------------------

    def own_values(self) -> dict[str, Any]:
        chosen = {"algo": self.source.name} if self.source.is_corl else {}
        return {**super().own_values(), "dataset": self.picker.name, **chosen}

    def put_own(self, entries: Mapping[str, Any]) -> None:
        self.picker.put(str(entries.get("dataset") or ""))
        known = {**entries, "algo": self.run["algo"].entry} if self.source.is_corl else entries
        super().put_own(known)

    def fill(self, config: Mapping[str, Any]) -> None:
        worker = config["metadata"]["worker"]
        settings = mapping(worker["config"])
        self.source.put_worker_config(settings, str(worker.get("bundle") or ""))
        if self.source.is_corl:  # these fields have what is said of the script
            plain = {name: value for name, value in settings.items() if name not in self.entry.choices}
            beside = {name: value for name, value in worker.items() if name != "bundle"}
            config = {**config, "metadata": {**config["metadata"], "worker": {**beside, "config": plain}}}
        super().fill(config)

    def set_checkpoint(self, path: str, kind: str, algo: str = "", env_id: str = "") -> None:
        self.source.choose_algorithm(algo)
        super().set_checkpoint(path, kind, algo, env_id)

    def request(self) -> RunRequest:
        request, script = super().request(), self.source.script()
        if script is None:
            return request
        return replace(request, settings={**request.settings, **script.settings()}, bundle=script.bundle)

    def script_words(self) -> list[str]:
        script = self.source.script()
        return super().script_words() if script is None else [*script.words(), "--worker", self.entry.type]

    def choose_dataset(self, name: str) -> None:
        """Learn from this one."""
        self.picker.put(name)
        self.bring_into_sight(self.picker)

    def _settings_given(self) -> dict[str, Any]:
        """What differs from the script's own defaults, and the GPU where one is asked for."""
        given = {name: value for group in self.setting_groups() for name, value in group.changed_values().items()}
        asked = self._wants_gpu() and not self.source.is_corl  # CORL's scripts get the device that is reserved
        return {**given, **({"cuda": True} if asked else {})}

    def _means_none(self, name: str) -> bool:
        return False

    def steps_wanted(self) -> int | None:
        flags = self._answers.get(self._algo, {}).get("flags") or []
        usual = next((one["default"] for one in flags if one["name"] in _LENGTHS), None)
        updates = super().steps_wanted() or (usual if isinstance(usual, int) else None)
        online = self.online.values().get("online_steps")
        return (updates or 0) + (online if isinstance(online, int) else 0) or None

    def field_problems(self) -> dict[str, str]:
        found = super().field_problems()
        resumes = self.start is not None and (start := self.start.start()) is not None and start.mode == "resume"
        if not self.picker.name and not resumes:
            found = {"dataset": self.tr("must be chosen"), **found}
        return {**self.source.problems(), **found}

    def titles(self) -> dict[str, str]:
        chosen = {editor.spec.name: editor.spec.title for editor in self.source.editors}
        return {**super().titles(), **chosen, "dataset": self.tr("The dataset")}

    def editor_of(self, field: str) -> FieldEditor | None:
        if field == "algo" and self.source.is_corl:
            return self.source.script_name
        own = next((editor for editor in self.source.editors if editor.spec.name == field), None)
        return own or super().editor_of(field)

    def waiting(self) -> str:
        return super().waiting() or self.picker.why_not()

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        self._follow_algorithm()
        super().show_request(request, problems)
        if self.source.is_corl:
            self.page.show_page("")
        entry = self.picker.entry
        own = entry.found.env_id if entry is not None and entry.found is not None else None
        self.run["env_id"].hint(own or self.tr("the data's own"))
        self._renew_look(request)

    def tell_refusal(self, sentence: str) -> None:
        super().tell_refusal(sentence)
        if "dataset" in sentence:
            self.picker.tell_problem(sentence)
            self.bring_into_sight(self.picker)

    def _show_manager(self, name: str) -> None:
        action = next((one for command, one in self.cockpit.commands.all() if command.name == MANAGER), None)
        if action is not None:
            action.trigger()
        if name:
            self.picker.shelf.open_wanted.emit(name)

    # ---- guard rails ---------------------------------------------------------------------------------------------

    def _renew_look(self, request: RunRequest) -> None:
        """Ask the worker what a run of this would need, when algorithm, data or hardware are others than before."""
        settings = request.settings
        now = (self._algo, self.picker.name, str(settings.get("env_id", "")), str(request.gpus))
        if self._busy or not self._asked or not self.picker.name or self.picker.why_not() or self.problems(request):
            return
        if now != self._looked:
            self._looked = now
            tell(self.rails, "", "warning")
            self._look_later.start()

    def _look_at_needs(self) -> None:
        looked, config = self._looked, self.request().config()
        root = self.cockpit.bridge.paths.root

        def look() -> tuple[DryRun, tuple[str, ...]]:
            found = self.check(config)
            return found, shortages(found.told, root)

        def done(answer: tuple[DryRun, tuple[str, ...]]) -> None:
            found, lacking = answer
            if looked != self._looked:
                return
            if found.asked and not found.ok:
                self.picker.tell_problem(found.text)
                return
            problem = str((found.told or {}).get("environment_problem") or "")
            said = [*lacking, *([self.tr("nothing is played: {why}").format(why=problem)] if problem else [])]
            tell(self.rails, "\n".join(f"{one[0].upper()}{one[1:]}." for one in said), "warning")

        self.cockpit.bridge.in_background(look, done, lambda _: None, owner=self)

    # ---- memory --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {**super().state(), "dataset": self.picker.name, "script": self.source.entries()}

    def restore(self, state: Mapping[str, Any]) -> None:
        name = state.get("dataset")
        self.source.put(mapping(state.get("script")))
        self.picker.put(name if isinstance(name, str) else "")
        super().restore(state)
