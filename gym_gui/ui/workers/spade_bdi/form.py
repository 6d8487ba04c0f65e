"""The form for runs of BDI agents: that of any worker with a schema, with plans to edit and a server to choose."""

from __future__ import annotations

from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.layouts import Section
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.workers.spade_bdi.asl_words import mistake_in
from gym_gui.ui.workers.spade_bdi.plans_panel import FIELD, PlansPanel
from gym_gui.ui.workers.spade_bdi.server_panel import PREFIX, ServerPanel

_AGENTS = ("agents", "mind", "when_idle")
_WORLD = ("map_name", "is_slippery", "max_episode_steps", "env_kwargs")


class SpadeBdiTrainForm(SchemaTrainForm):
    """Every field comes from the worker's schema; what it calls by another name stands under *Learning*."""

    def make_own_parts(self) -> None:
        self.plans = PlansPanel(self.cockpit, self.entry, self.queries)
        self.server = ServerPanel(self.cockpit, self.entry, self.queries)
        self.agents, self.world = FieldGroup(self.cockpit.themes), FieldGroup(self.cockpit.themes)
        self.plans.changed.connect(self.refresh)

    def setting_groups(self) -> list[FieldGroup]:
        return [self.plans.group, self.agents, self.settings, self.world, self.server.group]

    def share_out(self, fields: list[FieldSpec]) -> None:
        shares: dict[int, list[FieldSpec]] = {}
        for spec in fields:
            shares.setdefault(self._place(spec.name), []).append(spec)
        for number, group in enumerate(self.setting_groups()):
            group.set_fields(shares.get(number, []))
        self.plans.follow_field()
        self.server.arrange()

    def _place(self, name: str) -> int:
        """Which of the groups asks for a setting."""
        if name == FIELD:
            return 0
        if name.startswith(PREFIX):
            return 4
        return 1 if name in _AGENTS else 3 if name in _WORLD else 2

    def setting_sections(self) -> list[Section]:
        tr = self.tr
        return [
            self._section("plans", tr("Plans and agents"), self.plans, self.agents),
            self._section("settings", tr("Learning"), self.settings, self.pairs),
            self._section("world", tr("World"), self.world),
            self._section("server", tr("XMPP server"), self.server),
        ]

    def field_problems(self) -> dict[str, str]:
        found = super().field_problems()
        problem = self.plans.problem()
        return {**found, FIELD: problem} if problem else found

    def tell_refusal(self, sentence: str) -> None:
        super().tell_refusal(sentence)
        mistake = mistake_in(sentence)
        if mistake is not None:
            self.sections["plans"].set_open(True)
            self.plans.open_editor(mistake)
            self.bring_into_sight(self.plans)
