"""Where a run begins: from nothing, with a checkpoint's weights, or exactly where a checkpoint left off."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QVBoxLayout, QWidget

from gym_gui.ui.forms.choice_row import ChoiceRow
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.path_field import PathField
from gym_gui.ui.forms.settings_of import START_MODES, Start
from gym_gui.ui.theme import Themes

SCRATCH = "scratch"


class StartPanel(QWidget):
    """``changed()`` follows every choice. ``modes``: the ways besides scratch that the worker declares."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes, parent: QWidget | None = None, *, modes: Collection[str] = START_MODES) -> None:
        super().__init__(parent)
        tr = self.tr
        choices = [
            (SCRATCH, tr("Scratch"), tr("Begin with nothing learned yet")),
            ("warm_start", tr("Warm start"), tr("Begin with what a checkpoint has learned; the rest is new")),
            ("resume", tr("Resume"), tr("Go on exactly where a checkpoint left off")),
        ]
        self.kind = ChoiceRow(tr("Begin from"), [one for one in choices if one[0] in (SCRATCH, *modes)])
        self.kind.chosen.connect(self._edited)
        self.path = PathField(
            FieldSpec(
                "checkpoint",
                self.tr("Checkpoint"),
                help=self.tr("A checkpoint's folder, or a run with @best, @last or @STEP behind it"),
                placeholder=self.tr("folder, or RUN@best"),
            ),
            themes,
            folder=True,
        )
        self.path.changed.connect(self.changed)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.kind)
        layout.addWidget(self.path)
        self._arrange()

    def set_checkpoint(self, path: str, kind: str) -> None:
        """Begin from a checkpoint; kind: ``warm_start`` or ``resume``."""
        self.kind.choose(kind)
        self.path.put(path)

    def allow(self, why_not: Mapping[str, str]) -> None:
        """Which ways the script does not offer, and why."""
        for name in ("warm_start", "resume"):
            self.kind.forbid(name, why_not.get(name, ""))

    def start(self) -> Start | None:
        """The checkpoint to begin from, None for scratch or while none is named."""
        text = str(self.path.entry).strip()
        mode = next((mode for mode in START_MODES if mode == self.kind.choice), None)
        return Start(mode, text) if mode is not None and text else None

    def problems(self) -> dict[str, str]:
        missing = self.kind.choice != SCRATCH and not str(self.path.entry).strip()
        return {"checkpoint": self.tr("must be named, or begin from scratch")} if missing else {}

    def entries(self) -> dict[str, str]:
        return {"kind": self.kind.choice, "checkpoint": str(self.path.entry)}

    def put(self, entries: Mapping[str, Any]) -> None:
        self.kind.choose(str(entries.get("kind") or SCRATCH))
        self.path.put(str(entries.get("checkpoint") or ""))

    def _edited(self, *_: object) -> None:
        self._arrange()
        self.changed.emit()

    def _arrange(self) -> None:
        self.path.setVisible(self.kind.choice != SCRATCH)
