"""Which script trains: an algorithm of the worker's, upstream CleanRL's of that name, or a file of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.ui.forms.choice_row import ChoiceRow
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.path_field import PathField
from gym_gui.ui.theme import Themes
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.cleanrl.script_settings import ScriptSettings


class ScriptPicker(QWidget):
    """``changed()`` follows every choice."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes, entry: WorkerEntry, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._entry = entry
        self.source = ChoiceRow(
            self.tr("Script from"),
            [
                ("mosaic", self.tr("MOSAIC"), self.tr("A script of this worker, on current libraries")),
                (
                    "upstream",
                    self.tr("Upstream"),
                    self.tr("CleanRL's own script, unmodified, in its own environment"),
                ),
                (
                    "own",
                    self.tr("Own script"),
                    self.tr("A training script of yours, in the style of CleanRL"),
                ),
            ],
        )
        names = tuple(entry.algorithms)
        help_text = self.tr("The algorithm that learns")
        first = names[0] if names else ""
        self.algo = FieldEditor(FieldSpec("algo", self.tr("Algorithm"), "choice", first, help_text, names), themes)
        self.summary = QLabel()
        self.summary.setWordWrap(True)
        self.summary.setProperty("role", "muted")
        self.upstream_algo = FieldEditor(
            FieldSpec(
                "upstream_algo",
                self.tr("Script"),
                default="ppo",
                help=self.tr("The name of CleanRL's script, such as ppo or dqn_atari"),
            ),
            themes,
        )
        self.checkout = PathField(
            FieldSpec(
                "cleanrl_path",
                self.tr("Checkout"),
                help=self.tr("The folder of a CleanRL checkout of yours; empty uses the installed package"),
                placeholder=self.tr("the installed package"),
            ),
            themes,
            folder=True,
        )
        self.script_file = PathField(
            FieldSpec("script", self.tr("Script file"), help=self.tr("The Python file that trains; it runs as it is")),
            themes,
            filters=self.tr("Python scripts (*.py)"),
        )
        self.bundle = FieldEditor(
            FieldSpec(
                "bundle",
                self.tr("Bundle"),
                help=self.tr("The managed environment that the script runs in; `mosaic bundles` lists them"),
                placeholder=self.tr("as the script needs"),
            ),
            themes,
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.source)
        self.source.setVisible(entry.capabilities.foreign_scripts)  # not before: it would be a window of its own
        for editor in self._editors():
            editor.changed.connect(self._edited)
            layout.addWidget(editor)
        layout.insertWidget(2, self.summary)
        self.source.chosen.connect(self._edited)
        self._arrange()

    def script(self) -> ScriptSettings:
        match self.source.choice:
            case "own":
                return ScriptSettings(script=str(self.script_file.entry).strip(), bundle=str(self.bundle.entry).strip())
            case "upstream":
                return ScriptSettings(
                    algo=str(self.upstream_algo.entry).strip(),
                    upstream=True,
                    cleanrl_path=str(self.checkout.entry).strip(),
                    bundle=str(self.bundle.entry).strip(),
                )
        return ScriptSettings(algo=str(self.algo.entry))

    def editor_of(self, field: str) -> FieldEditor | None:
        if field == "algo":
            return self.upstream_algo if self.source.choice == "upstream" else self.algo
        return next((editor for editor in self._editors() if editor.spec.name == field), None)

    def entries(self) -> dict[str, Any]:
        found: dict[str, Any] = {editor.spec.name: editor.entry for editor in self._editors()}
        return {"source": self.source.choice, **found}

    def put(self, entries: Mapping[str, Any]) -> None:
        self.source.choose(str(entries.get("source") or "mosaic"))
        for editor in self._editors():
            wanted = entries.get(editor.spec.name, editor.spec.start)
            editor.put(wanted if isinstance(wanted, str) else editor.spec.start)

    def put_worker_config(self, worker: Mapping[str, Any], bundle: str) -> None:
        """What a run config says of its script."""
        entries: dict[str, Any] = {"bundle": bundle}
        if worker.get("script"):
            entries |= {"source": "own", "script": worker["script"]}
        elif worker.get("source") == "cleanrl" or worker.get("cleanrl_path"):
            entries |= {"source": "upstream", "upstream_algo": worker.get("algo", "")}
            entries |= {"cleanrl_path": worker.get("cleanrl_path", "")}
        else:
            entries |= {"source": "mosaic", "algo": worker.get("algo", ""), "bundle": ""}
        self.put(entries)

    def choose_algorithm(self, name: str) -> None:
        """An algorithm as checkpoints call it: upstream's begin with ``cleanrl/``; one that is none is left alone."""
        if name.startswith("cleanrl/"):
            self.source.choose("upstream")
            self.upstream_algo.put(name.removeprefix("cleanrl/"))
        elif name in self._entry.algorithms:
            self.source.choose("mosaic")
            self.algo.put(name)

    def _editors(self) -> tuple[FieldEditor, ...]:
        return (self.algo, self.upstream_algo, self.checkout, self.script_file, self.bundle)

    def _edited(self, *_: object) -> None:
        self._arrange()
        self.changed.emit()

    def _arrange(self) -> None:
        source = self.source.choice
        self.algo.setVisible(source == "mosaic")
        self.upstream_algo.setVisible(source == "upstream")
        self.checkout.setVisible(source == "upstream")
        self.script_file.setVisible(source == "own")
        self.bundle.setVisible(source != "mosaic")
        offered = self._entry.algorithms.get(str(self.algo.entry)) if source == "mosaic" else None
        self.summary.setText(offered.summary if offered else "")
        self.summary.setVisible(offered is not None)
