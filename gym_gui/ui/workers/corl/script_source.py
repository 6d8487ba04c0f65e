"""Which script learns: one of this worker's algorithms, or CORL's own of a checkout, unmodified."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QLabel, QVBoxLayout, QWidget

from gym_gui.services.script_choice import ChosenScript
from gym_gui.ui.forms.choice_row import ChoiceRow
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.path_field import PathField
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from mosaic_protocol.worker_manifest import Choice, WorkerManifest

OWN, CORL = "mosaic", "corl"
_FOLDER, _BUNDLE = "corl_path", "bundle"
_PREFIX = "corl/"
"""What the algorithms of its checkpoints begin with."""


class ScriptSource(QWidget):
    """``changed()`` follows every choice. Without a manifest, which says what can be chosen, there are the worker's own
    algorithms alone."""

    changed = pyqtSignal()

    def __init__(self, themes: Themes, manifest: WorkerManifest | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._manifest = manifest if manifest is not None and _FOLDER in manifest.choices else None
        tr = self.tr
        self.source = ChoiceRow(
            tr("Script from"),
            [
                (OWN, tr("MOSAIC"), tr("An algorithm of this worker, which can be resumed to the bit")),
                (
                    CORL,
                    tr("CORL"),
                    tr("CORL's own script from a checkout of yours, unmodified, in its own environment"),
                ),
            ],
        )
        help_text = tr("What CORL's file is called: iql; finetune.iql for the one in another folder")
        self.script_name = FieldEditor(
            FieldSpec("script_name", tr("Script"), help=help_text, placeholder=tr("iql, or finetune.iql")), themes
        )
        variable = (self._folder_choice.variable if self._manifest is not None else None) or ""
        self._offered = ""
        self._usual_folder = os.environ.get(variable, "") if variable else ""
        self.checkout = PathField(
            FieldSpec(
                _FOLDER,
                tr("Checkout"),
                help=tr("The folder of your clone of corl-team/CORL; empty: what {name} names").format(name=variable),
                placeholder=self._usual_folder or tr("the folder of your clone of corl-team/CORL"),
            ),
            themes,
            folder=True,
        )
        usual = self._folder_choice.bundle if self._manifest is not None else ""
        help_text = tr("The managed environment that the script runs in; `mosaic bundles` lists them")
        self.bundle = FieldEditor(FieldSpec(_BUNDLE, tr("Bundle"), help=help_text, placeholder=usual or ""), themes)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.source)
        for editor in self.editors:
            layout.addWidget(editor)
            editor.changed.connect(self._edited)
        layout.addWidget(self.problem)
        self.source.chosen.connect(self._edited)
        self._arrange()
        self.setVisible(self._manifest is not None)

    @property
    def _folder_choice(self) -> Choice:
        assert self._manifest is not None
        return self._manifest.choices[_FOLDER]

    @property
    def editors(self) -> tuple[FieldEditor, ...]:
        return self.script_name, self.checkout, self.bundle

    @property
    def is_corl(self) -> bool:
        return self._manifest is not None and self.source.choice == CORL

    @property
    def name(self) -> str:
        return str(self.script_name.entry).strip()

    @property
    def folder(self) -> str:
        """The checkout that is meant, "" for none."""
        return str(self.checkout.entry).strip() or self._usual_folder

    def script(self) -> ChosenScript | None:
        """CORL's script as it is chosen; None for the worker's own algorithms."""
        if not self.is_corl or self._manifest is None:
            return None
        given = {_FOLDER: self.folder, _BUNDLE: str(self.bundle.entry).strip()}
        return ChosenScript(self._manifest, self.name, given)

    def problems(self) -> dict[str, str]:
        """What is wrong with the choice, by field; looks at the disk."""
        if not self.is_corl:
            return {}
        found = {} if self.name else {"script_name": self.tr("must be chosen")}
        if not self.folder:
            found[_FOLDER] = self.tr("must be chosen: clone https://github.com/corl-team/CORL")
        elif not Path(self.folder).expanduser().is_dir():
            found[_FOLDER] = self.tr("is not there: no folder {folder}").format(folder=self.folder)
        return found

    def offer(self) -> None:
        """Offer the scripts of the checkout while somebody types the name of one; looks at the disk once for each."""
        if self._offered == self.folder:
            return
        self._offered = self.folder
        folder = Path(self.folder).expanduser() / "algorithms"
        files = [path for path in sorted(folder.glob("*/*.py")) if not path.stem.startswith("_")][:200]
        plain = [path.stem for path in files if path.parent.name == "offline"]
        others = [path for path in files if path.parent.name != "offline"]
        named = [f"{one.parent.name}.{one.stem}" if one.stem in plain else one.stem for one in others]
        self.script_name.suggest([*plain, *named])

    def tell_problem(self, sentence: str) -> None:
        """Say why the script's flags cannot be read; "" takes it back."""
        tell(self.problem, sentence, "error")

    # ---- memory --------------------------------------------------------------------------------------------------

    def entries(self) -> dict[str, Any]:
        return {"source": self.source.choice, **{editor.spec.name: editor.entry for editor in self.editors}}

    def put(self, entries: Mapping[str, Any]) -> None:
        self.source.choose(str(entries.get("source") or OWN))
        for editor in self.editors:
            wanted = entries.get(editor.spec.name)
            editor.put(wanted if isinstance(wanted, str) else "")

    def put_worker_config(self, settings: Mapping[str, Any], bundle: str) -> None:
        """What a run config says of its script."""
        foreign = settings.get("source") == CORL or bool(settings.get(_FOLDER))
        folder = str(settings.get(_FOLDER) or "")
        kept = {
            "source": CORL,
            "script_name": str(settings.get("algo") or ""),
            _FOLDER: "" if folder == self._usual_folder else folder,
            _BUNDLE: "" if self._manifest is not None and bundle == self._folder_choice.bundle else bundle,
        }
        self.put(kept if foreign else {**self.entries(), "source": OWN})

    def choose_algorithm(self, name: str) -> None:
        """An algorithm as checkpoints call it."""
        if name.startswith(_PREFIX):
            self.source.choose(CORL)
            self.script_name.put(name.removeprefix(_PREFIX))
        elif name:
            self.source.choose(OWN)

    def _edited(self, *_: object) -> None:
        self._arrange()
        self.tell_problem("")
        self.changed.emit()

    def _arrange(self) -> None:
        for editor in self.editors:
            editor.setVisible(self.is_corl)
        if not self.is_corl:
            self.problem.hide()
