"""The form for a CleanRL run: the script and its own parameters, the environment, what is kept and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PyQt6.QtCore import QTimer

from gym_gui.services.run_request import RunRequest, default_name, train_command
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.flag_fields import (
    ARTIFACT_FLAGS,
    PLACED_FLAGS,
    WANDB_EXTRAS,
    WANDB_FLAGS,
    artifact_fields,
    given_flags,
    missing_reason,
    wandb_fields,
    why_not_able,
    with_script_defaults,
)
from gym_gui.ui.forms.run_fields import request_options
from gym_gui.ui.forms.settings_of import mapping, settings_of
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.web_view import open_in_browser
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.cleanrl.checks import (
    place_checkpoints,
    proxy_fallback,
    run_cleanrl_dry_run,
    script_problems,
)
from gym_gui.ui.workers.cleanrl.content import CleanRlContent
from gym_gui.ui.workers.cleanrl.memory import from_run_config
from gym_gui.ui.workers.cleanrl.script_settings import ScriptSettings
from gym_gui.validations.dry_run import DryRun

TYPING_MILLISECONDS = 400


class CleanRlTrainForm(TrainForm):
    """What the worker knows is asked of it by process, in the background; what was typed for each script is kept."""

    def __init__(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> None:
        super().__init__(cockpit, entry, queries)
        self.content = CleanRlContent(cockpit.themes, entry, self.notes_panel, self.extras, self.sweep)
        self.content.documentation.link_wanted.connect(lambda address: open_in_browser(address, cockpit.notify))
        self.parameters, self.environment = self.content.parameters, self.content.environment
        self.preview = self.content.preview
        self._script = ScriptSettings()
        self._params: dict[str, Any] = {}
        """What was typed for each script, by the script's key."""
        self._answers: dict[str, dict[str, Any]] = {}
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(TYPING_MILLISECONDS)
        self._typing.timeout.connect(self._ask_flags)
        self.content.changed.connect(self.refresh)
        self.content.script_changed.connect(self._script_changed)
        self.parameters.retry.connect(self._ask_flags)
        if self.extras is not None:
            self.extras.changed.connect(self._sets_changed)
            self.extras.installed.connect(self._ask_environments)
            self.environment.extra_wanted.connect(self._want_set)
        self.content.hardware["cuda"].forbid(self.tr("Not known yet: the daemon has not said whether there is a GPU."))
        self._tell_wandb("")
        self.begin(self.content)
        self._ask_environments()

    # ---- the script and its flags --------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        one = self._script
        return "|".join((one.algo, "upstream" if one.upstream else "", one.cleanrl_path, one.script, one.bundle))

    def _script_changed(self) -> None:
        script = self.content.picker.script()
        if script == self._script:
            return
        self._leave_script(script)
        self._script = script
        self.content.documentation.show_page(script.name)
        offered = None if script.is_upstream else self.entry.algorithms.get(script.algo)
        self.environment.tell("")
        self.environment.use_sources(tuple(offered.environments) if offered else None)
        self.parameters.expect()
        self.parameters.put(mapping(self._params.get(self._key)))
        if self._key in self._answers:
            self._use_flags(self._key, self._answers[self._key])
        elif script.script or script.is_upstream:
            self._typing.start()
        else:
            self._ask_flags()
        self.refresh()

    def _leave_script(self, following: ScriptSettings) -> None:
        """Keep what was typed for a script, and move on from its example environment."""
        if self._script.name:
            self._params[self._key] = self.parameters.entries()
        before, after = (self.entry.algorithms.get(script.algo) for script in (self._script, following))
        if after is not None and self.environment.env_id in ("", before.example_env if before else ""):
            self.environment.put(after.example_env or "")

    def _ask_flags(self) -> None:
        key, script = self._key, self._script
        if self._script_problems():
            self.parameters.expect(self.tr("Choose a script, and its flags are shown here."))
            self.refresh()
            return
        self.parameters.expect()
        ask = lambda: self.queries.describe_flags(self.entry.type, script.settings(), script.environment)  # noqa: E731
        failed = lambda sentence: self._no_flags(key, sentence)  # noqa: E731
        self.cockpit.bridge.in_background(ask, lambda told: self._use_flags(key, told), failed, owner=self)

    def _use_flags(self, key: str, told: Mapping[str, Any]) -> None:
        self._answers[key] = dict(told)
        if key != self._key:
            return  # another script was chosen meanwhile
        self.parameters.use_flags(told.get("flags") or [], PLACED_FLAGS)
        spec_of = self.parameters.spec_of
        for group, fields in ((self.content.artifacts, artifact_fields()), (self.content.wandb, wandb_fields())):
            group.set_fields(with_script_defaults(fields, spec_of), group.entries())
        self._forbid_missing(told)
        if (steps := spec_of("total_timesteps")) is not None:
            self.content.run["total_timesteps"].hint(
                f"{steps.default:,}" if isinstance(steps.default, int) else str(steps.start)
            )
        self.refresh()

    def _no_flags(self, key: str, sentence: str) -> None:
        if key == self._key:
            self.parameters.fail(sentence)
            self.refresh()

    def _forbid_missing(self, told: Mapping[str, Any]) -> None:
        """Disable what the script has no flag for, and what its runs cannot do."""
        foreign = self._script.is_upstream or bool(self._script.script)
        by_harness = ("checkpoint_every", "checkpoint_keep") if foreign else ()
        for group, flags in ((self.content.artifacts, ARTIFACT_FLAGS), (self.content.wandb, WANDB_FLAGS)):
            for flag in flags:
                there = self.parameters.spec_of(flag) is not None or flag in by_harness
                group[flag].forbid("" if there else missing_reason(flag, self._script.name))
        for extra in WANDB_EXTRAS:
            self.content.wandb[extra].forbid(self.content.wandb["track"].why_not)
        can = mapping(told.get("capabilities"))
        self.content.start.allow({kind: why_not_able(can, kind) for kind in ("warm_start", "resume")})
        self.content.artifacts["checkpoints"].forbid(why_not_able(can, "checkpoint"))
        self._use_gpus()

    # ---- what the worker and the daemon tell ---------------------------------------------------------------------

    def _ask_environments(self) -> None:
        ask = lambda: self.queries.environments(self.entry.type)  # noqa: E731
        self.cockpit.bridge.in_background(ask, self.environment.offer, self._no_environments, owner=self)
        look = lambda: proxy_fallback(self.queries.paths)  # noqa: E731
        self.cockpit.bridge.in_background(look, self._tell_wandb, owner=self)

    def _no_environments(self, sentence: str) -> None:
        self.notes_panel.note(self.tr("the list of environments could not be read: {why}").format(why=sentence))

    def _tell_wandb(self, proxy: str) -> None:
        tr = self.tr
        key = tr(
            "The API key is never stored: set WANDB_API_KEY where the daemon is started, "
            "or keep it in the keyring (keyring set mosaic-wandb api_key). Without one the run is tracked offline."
        )
        found = tr("Proxy found: {proxy}.").format(proxy=proxy) if proxy else tr("No proxy is set in .env.")
        self.content.wandb_hint.setText(f"{key} {found}")

    def _sets_changed(self) -> None:
        assert self.extras is not None
        self.environment.expect(self.extras.missing())

    def _want_set(self, name: str) -> None:
        """The environment needs a set of extras: it is installed before the run starts."""
        assert self.extras is not None
        self.extras.tick(name)
        self.show_extras()

    def show_extras(self) -> None:
        section = self.content.sections.get("extras")
        if section is not None:
            section.set_open(True)
            self.bring_into_sight(section)

    def gpus_changed(self) -> None:
        self._use_gpus()

    def _use_gpus(self) -> None:
        if self.gpus is None:
            return
        reason = self.no_gpu
        if not reason and self.parameters.is_known and self.parameters.spec_of("cuda") is None:
            reason = missing_reason("cuda", self._script.name)
        self.content.hardware["cuda"].forbid(reason)

    # ---- what is asked for ---------------------------------------------------------------------------------------

    def request(self) -> RunRequest:
        script, run = self.content.picker.script(), self.content.run.values()
        env_id = self.environment.env_id or None
        seed = 1 if run["seed"] is None else run["seed"]
        tracking = given_flags(self.content.wandb, WANDB_EXTRAS) if self._is_tracked() else {}
        start = self.content.start.start()
        settings = settings_of(
            {"env_id": env_id, "seed": seed, "total_timesteps": run["total_timesteps"]},
            self._algo_params(),
            start,
            {**tracking, **self.extra_sets()},
            script.settings(),
        )
        options = request_options(self.content.hardware, self.content.remarks)
        usual = default_name(script.name or self.entry.type, settings)
        return RunRequest(
            worker_type=self.entry.type,
            module=self.entry.module,
            run_name=self.name_for(run["run_name"], usual),
            settings=settings,
            bundle=script.environment,
            artifacts=self._artifacts(),
            tensorboard=bool(self.content.artifacts.values()["tensorboard"]),
            **{**options, "gpus": 1 if self._wants_gpu() else 0},
        )

    def _wants_gpu(self) -> bool:
        cuda = self.content.hardware["cuda"]
        return not cuda.why_not and cuda.entry is True

    def _algo_params(self) -> dict[str, Any]:
        cuda = self.parameters.spec_of("cuda")
        asked = {"cuda": self._wants_gpu()} if cuda and self.gpus and cuda.default is not self._wants_gpu() else {}
        return {
            **self.parameters.params(),
            **asked,
            **given_flags(self.content.artifacts, ARTIFACT_FLAGS),
            **given_flags(self.content.wandb, WANDB_FLAGS),
        }

    def _is_tracked(self) -> bool:
        track = self.content.wandb["track"]
        return track.entry is True and not track.why_not

    def _artifacts(self) -> dict[str, Any]:
        """What the run config says of artifacts besides TensorBoard; only what differs from its defaults."""
        kept = self.content.artifacts
        found: dict[str, Any] = {}
        if kept["checkpoints"].entry is False:
            found["checkpoints"] = {"enabled": False}
        if kept["capture_video"].entry is True and not kept["capture_video"].why_not:
            found["video"] = {"enabled": True}
        if self._is_tracked():
            found["wandb"] = {"enabled": True}
        return found

    def steps_wanted(self) -> int | None:
        default = self.parameters.spec_of("total_timesteps")
        return super().steps_wanted() or (default.default if default is not None else None)

    # ---- what is wrong -------------------------------------------------------------------------------------------

    def field_problems(self) -> dict[str, str]:
        found = self._script_problems()
        if not self.environment.env_id and self.content.picker.source.choice != "own":
            found["env_id"] = self.tr("must be chosen")
        return {**found, **self.content.problems()}

    def _script_problems(self) -> dict[str, str]:
        script = self.content.picker.script()
        if self.content.picker.source.choice == "own" and not script.script:
            return {"script": self.tr("must be chosen")}
        return script_problems(script, self.entry.algorithms)

    def waiting(self) -> str:
        if self.environment.missing():
            return self.environment.missing()
        return "" if self.parameters.is_known else self.parameters.told.text()

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        self.preview.show_command(train_command(self.content.picker.script(), request))
        self.content.run["run_name"].hint(request.run_name)
        self.content.show_problems(problems)

    def searchable(self) -> list[FieldGroup]:
        return [self.parameters.fields]

    def script_words(self) -> list[str]:
        return self.content.picker.script().words()

    def editor_of(self, field: str) -> FieldEditor | None:
        return self.content.editor_of(field)

    def titles(self) -> dict[str, str]:
        return self.content.titles()

    # ---- doing ---------------------------------------------------------------------------------------------------

    def place(self, config: dict[str, Any]) -> dict[str, Any]:
        return place_checkpoints(config, self.queries.paths)

    def check(self, config: Mapping[str, Any]) -> DryRun:
        return run_cleanrl_dry_run(config, self.queries)

    def tell_refusal(self, sentence: str) -> None:
        super().tell_refusal(sentence)
        place = self.content.point_at(sentence)
        if place is None:
            self.show_notes()
        else:
            self.area.ensureWidgetVisible(place)

    def show_notes(self) -> None:
        self.content.sections["notes"].set_open(True)
        self.area.ensureWidgetVisible(self.notes_panel)

    def set_checkpoint(self, path: str, kind: str, algo: str = "", env_id: str = "") -> None:
        """Begin from a checkpoint; kind: ``warm_start`` or ``resume``. With its algorithm and environment, if given."""
        self.content.picker.choose_algorithm(algo)
        if env_id:
            self.environment.put(env_id)
        self.content.sections["start"].set_open(True)
        self.content.start.set_checkpoint(path, kind)
        self.area.ensureWidgetVisible(self.content.start)

    # ---- memory --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        params = {**self._params, self._key: self.parameters.entries()}
        return {**self.content.state(), "params": {key: typed for key, typed in params.items() if typed}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._params = dict(mapping(state.get("params")))
        self._script = ScriptSettings()  # whatever script follows, its parameters are taken from what is restored
        self.content.picker.put(mapping(state.get("script")))
        self._script_changed()
        algorithm = self.entry.algorithms.get(self._script.algo)
        self.content.restore({"env_id": algorithm.example_env or "" if algorithm else "", **state})

    def fill(self, config: Mapping[str, Any]) -> None:
        """Take the settings of a run config. Raises KeyError for one that has no worker's part."""
        worker = config["metadata"]["worker"]
        self.content.picker.put_worker_config(worker["config"], str(worker.get("bundle") or ""))
        self._script_changed()
        known = from_run_config(config, self._script.name)
        self.environment.put(known.env_id)
        self.content.start.put(known.start)
        if self.extras is not None:
            self.extras.put(known.sets)
        self.parameters.more.reset()
        self.parameters.put(known.params)
        for name, group in self.content.groups().items():
            group.put(known.groups[name])
