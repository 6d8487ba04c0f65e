"""The form for runs of language models: which model, how it is asked, what it may cost, and what it would be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PyQt6.QtCore import QTimer
from PyQt6.QtGui import QFontDatabase, QShowEvent
from PyQt6.QtWidgets import QLabel, QPlainTextEdit

from gym_gui.services.run_request import RunRequest
from gym_gui.services.worker_tools import ToolRefusedError
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.layouts import Section
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.styling import tell
from gym_gui.ui.workers.llm.model_panel import FIELDS as MODEL
from gym_gui.ui.workers.llm.model_panel import ModelPanel
from gym_gui.ui.workers.llm.prompts_panel import FIELD as PROMPT
from gym_gui.ui.workers.llm.prompts_panel import PromptsPanel, mistake_in
from mosaic_protocol.plain_text import one_line, visible

LOOK_MILLISECONDS = 700
_LENGTH = ("episodes",)
_ASKING = (
    *("plan_steps", "examples_from", "examples", "examples_actor", "lessons"),
    *("form", "temperature", "max_answer"),
)
_SEEN = ("history", "history_reasoning", "pictures", "history_pictures")
_COSTS = ("max_calls", "max_tokens", "max_money", "prices", "cache")
_WORLD = ("map_name", "is_slippery", "max_episode_steps", "env_kwargs")
_OF_ONE_MODE = {
    "plan_steps": "plan",
    "lessons": "reflect",
    "examples_from": "few_shot",
    "examples": "few_shot",
    "examples_actor": "few_shot",
}
"""Settings that only one mode has; in the others they are neither shown nor sent."""


class LlmTrainForm(SchemaTrainForm):
    """Every field comes from the worker's schema. The worker's dry run is asked whenever something else stands in the
    form: it says whether the model can be asked, what it costs, and shows the first prompt. It asks no server."""

    def make_own_parts(self) -> None:
        themes = self.cockpit.themes
        self.model = ModelPanel(themes)
        self.prompts = PromptsPanel(self.cockpit, self.entry, self.queries)
        self.length, self.asking, self.seen = FieldGroup(themes), FieldGroup(themes), FieldGroup(themes)
        self.costs, self.world = FieldGroup(themes), FieldGroup(themes)
        for panel in (self.model, self.prompts):
            panel.changed.connect(self.refresh)
        self.price = QLabel()
        self.price.setWordWrap(True)
        self.price.hide()
        self.preview = QPlainTextEdit()
        self.preview.setReadOnly(True)
        self.preview.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.preview.setAccessibleName(self.tr("What the model is asked first"))
        tip = self.tr("The first prompt of this run. No server was asked; the run tries out how its server can answer.")
        self.preview.setToolTip(tip)
        self.preview.setMinimumHeight(180)
        self.preview_said = QLabel()
        self.preview_said.setWordWrap(True)
        self.preview_said.hide()
        self._looked: dict[str, Any] | None = None
        """What was asked about last."""
        self._look_later = QTimer(self)
        self._look_later.setSingleShot(True)
        self._look_later.setInterval(LOOK_MILLISECONDS)
        self._look_later.timeout.connect(self.look)

    # ---- what stands where ---------------------------------------------------------------------------------------

    def setting_groups(self) -> list[FieldGroup]:
        return [
            self.length,
            self.model.group,
            self.asking,
            self.prompts.group,
            self.seen,
            self.costs,
            self.world,
            self.settings,
        ]

    def share_out(self, fields: list[FieldSpec]) -> None:
        by_name = {spec.name: spec for spec in fields}
        places = ((self.length, _LENGTH), (self.asking, _ASKING), (self.seen, _SEEN), (self.costs, _COSTS))
        for group, names in (*places, (self.world, _WORLD), (self.prompts.group, (PROMPT,))):
            group.set_fields([by_name.pop(name) for name in names if name in by_name])
        self.model.set_fields([by_name.pop(name) for name in MODEL if name in by_name])
        self.settings.set_fields(list(by_name.values()))
        self.prompts.follow_field()

    def _run_fields(self) -> list[FieldSpec]:
        tr = self.tr
        by_name = {spec.name: spec for spec in super()._run_fields()}
        by_name["algo"] = replace(by_name["algo"], title=tr("How it plays"))
        steps = tr("Environment steps after which the run is over; empty: the episodes decide")
        by_name["total_timesteps"] = replace(by_name["total_timesteps"], title=tr("Steps at most"), help=steps)
        return list(by_name.values())

    def run_parts(self) -> list[Any]:
        return [self.about, self.run, self.length, self.kept_note]

    def setting_sections(self) -> list[Section]:
        tr = self.tr
        return [
            self._section("model", tr("Model"), self.model),
            self._section("asking", tr("Questions and answers"), self.asking),
            self._section("prompt", tr("Prompt"), self.prompts, self.seen),
            self._section("world", tr("World"), self.world, self.settings, self.pairs),
        ]

    def more_sections(self) -> list[Section]:
        tr = self.tr
        return [
            self._section("costs", tr("Costs and limits"), self.price, self.costs),
            self._section("preview", tr("What the model is asked first"), self.preview_said, self.preview),
        ]

    # ---- the run -------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        return str(self.run["algo"].entry)

    def _settings_given(self) -> dict[str, Any]:
        found = super()._settings_given()
        return {name: value for name, value in found.items() if _OF_ONE_MODE.get(name, self.mode) == self.mode}

    def field_problems(self) -> dict[str, str]:
        found = {**super().field_problems(), **self.model.problems()}
        if self.mode == "few_shot" and "examples_from" in self.asking and not self.asking["examples_from"].entry:
            found["examples_from"] = self.tr("must be named: a run or session whose best episodes are shown")
        problem = self.prompts.problem()
        return {**found, PROMPT: problem} if problem else found

    def show_request(self, request: RunRequest, problems: Mapping[str, str]) -> None:
        super().show_request(request, problems)
        for name, editor in self.asking.editors.items():
            editor.setVisible(_OF_ONE_MODE.get(name, self.mode) == self.mode)
        if "examples_from" in self.asking:
            env_id = str(self.run["env_id"].entry)
            self.asking["examples_from"].suggest([run.name for run in self.cockpit.runs if run.env_id == env_id])
        if self.isVisible() and self._asked and self._question() != self._looked:
            self._look_later.start()

    def tell_refusal(self, sentence: str) -> None:
        super().tell_refusal(sentence)
        if (mistake := mistake_in(sentence)) is not None:
            self.sections["prompt"].set_open(True)
            self.prompts.open_editor(mistake)
            self.bring_into_sight(self.prompts)

    # ---- what the worker says of it ------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.refresh()

    def _question(self) -> dict[str, Any]:
        """The run as it stands, with the environment that is always there where none is chosen."""
        config = self.request().config()
        settings = config["metadata"]["worker"]["config"]
        offered = self.entry.algorithms.get(self.mode)
        settings.setdefault("env_id", offered.example_env if offered is not None else "")
        return {**config, "run_name": "dry-run"}

    def look(self) -> None:
        """Have the worker say what it would do; nobody is asked and nothing is started."""
        self._look_later.stop()
        if not self._asked or not self.entry.ready:
            return
        self._looked = question = self._question()
        if self.field_problems():
            self._show({}, "")
            return

        def ask() -> tuple[dict[str, Any], str]:
            try:
                return self.queries.dry_run(self.entry.type, question) or {}, ""
            except ToolRefusedError as error:
                return {}, one_line(str(error))

        def done(answer: tuple[dict[str, Any], str]) -> None:
            if question == self._looked:
                self._show(*answer)

        failed = lambda sentence: self._show({}, one_line(sentence))  # noqa: E731
        self.cockpit.bridge.in_background(ask, done, failed, owner=self)

    def _show(self, told: Mapping[str, Any], refusal: str) -> None:
        about_model = "local model" in refusal or "--base-url" in refusal or "--model" in refusal
        if told:
            here = self.tr("The small model is installed: nothing leaves this machine.")
            there = self.tr("Prompts go to {server}.").format(server=one_line(str(told.get("server"))))
            self.model.tell(here if self.model.is_local else there, "muted")
        else:
            self.model.tell(refusal if about_model else "", "error")
        self.model.tell_key(told.get("has_key"))
        self._show_price(told)
        tell(self.preview_said, "" if about_model else refusal, "error")
        asked = told.get("asks_first")
        asked = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
        parts = [f"{str(one.get('role')).upper()}\n{one.get('text')}" for one in asked]
        text = visible("\n\n".join(parts))
        self.preview.setVisible(bool(text))
        if self.preview.toPlainText() != text:
            self.preview.setPlainText(text)

    def _show_price(self, told: Mapping[str, Any]) -> None:
        if not told:
            tell(self.price, "", "muted")
        elif known := one_line(str(told.get("price") or "")):
            tell(self.price, self.tr("Price: {price}.").format(price=known), "muted")
        else:
            unknown = self.tr("The price of this model is not known: limit tokens, or give a file with prices.")
            tell(self.price, unknown, "warning")
