"""Asks below the list which policy counts as the expert, before random actions and it are played for references."""

from __future__ import annotations

from functools import partial

from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.datasets.wishes import MEASURED_EPISODES, reference_words
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.ask_bar import AskBar


class ReferencesBar(AskBar):
    """Hidden until :meth:`ask_about`."""

    def __init__(self, themes: Themes, shelf: DatasetShelf) -> None:
        self.fields = FieldGroup(themes)
        super().__init__(self.fields, harmless=True)
        self._shelf = shelf
        tr = self.tr
        self.fields.set_fields(
            [
                FieldSpec(
                    "checkpoint",
                    tr("Expert"),
                    help=tr("The policy whose mean return counts as 100; random actions count as 0"),
                    placeholder="last@best",
                ),
                FieldSpec(
                    "episodes", tr("Episodes"), "int", MEASURED_EPISODES, tr("So many are played with each"), least=1
                ),
            ]
        )
        self.fields.changed.connect(self._judge)
        for editor in self.fields.editors.values():
            editor.editor.returnPressed.connect(self.confirm.click)  # type: ignore[union-attr]

    def ask_about(self, dataset: str) -> None:
        self._shelf.ask_checkpoints(self.fields["checkpoint"].suggest, self)
        self.ask(
            self.tr("Which policy counts as 100 in scores on {name}?").format(name=dataset),
            [],
            (self.tr("Measure"), self.tr("Cancel")),
            self.tr("Plays random actions and the policy on the environment of this machine"),
            partial(self._measure, dataset),
        )
        self.fields["checkpoint"].editor.setFocus()
        self._judge()

    def _judge(self) -> None:
        self.confirm.setEnabled(bool(self.fields.values()["checkpoint"]) and not self.fields.problems())

    def _measure(self, dataset: str) -> None:
        title = self.tr("Measure references of {name}").format(name=dataset)
        said = self.tr("{name} has references now").format(name=dataset)
        done = lambda _: self._shelf.told.emit(said, "good", dataset)  # noqa: E731
        self._shelf.work(reference_words(dataset, self.fields.values()), title, dataset, done)
