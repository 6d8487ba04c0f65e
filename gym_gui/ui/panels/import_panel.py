"""Bringing in a policy that was trained elsewhere: a file, the algorithm, the environment. Errors stay here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import (
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QWidget,
)

from gym_gui.services.checkpoints.use import import_file, import_name
from gym_gui.services.worker_tools import ToolHandle
from gym_gui.ui.context import Cockpit
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.calm import CalmCombo
from mosaic_protocol.worker_manifest import discover

_KNOWN_ENDINGS = (".pt", ".pth", ".safetensors")


class ImportPanel(QFrame):
    """``imported(dict)`` brings what the worker says about the new checkpoint."""

    imported = pyqtSignal(dict)

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None, *, model_files: Sequence[str] = ()) -> None:
        """``model_files``: endings that workers know besides those that everybody does."""
        super().__init__(parent)
        self.setProperty("role", "card")
        self._cockpit = cockpit
        self._endings = (*model_files, *_KNOWN_ENDINGS)
        self._converter = ToolHandle()
        self.file = QLineEdit()
        self.file.setPlaceholderText(self.tr("a model: {endings}").format(endings=", ".join(self._endings)))
        self.file.setAccessibleName(self.tr("File to import"))
        browse = QPushButton(self.tr("Browse…"))
        browse.setToolTip(self.tr("Choose the file"))
        browse.clicked.connect(self._browse)
        self.algo = CalmCombo()
        importers = [worker for worker in discover().workers.values() if worker.policies.import_file]
        self.algo.addItems(sorted({name for worker in importers for name in worker.algorithms}))
        self.algo.setToolTip(self.tr("The algorithm whose network the file holds"))
        self.env_id = QLineEdit()
        self.env_id.setPlaceholderText("CartPole-v1")
        self.env_id.setToolTip(self.tr("The environment that it was trained on"))
        self.start = QPushButton(self.tr("Import"))
        self.start.setProperty("kind", "primary")
        self.start.setToolTip(self.tr("Check the file and keep a converted copy; code in it is never run"))
        self.start.clicked.connect(self._import)
        self.told = QLabel()
        self.told.setWordWrap(True)
        row = QHBoxLayout()
        row.addWidget(self.file, 1)
        row.addWidget(browse)
        form = QFormLayout(self)
        form.setContentsMargins(12, 10, 12, 10)
        form.addRow(self.tr("File"), row)
        form.addRow(self.tr("Algorithm"), self.algo)
        form.addRow(self.tr("Environment"), self.env_id)
        start_row = QHBoxLayout()
        start_row.addWidget(self.start)
        start_row.addWidget(self.told, 1)
        form.addRow("", start_row)
        for edit in (self.file, self.env_id):
            edit.textChanged.connect(self._judge)
        self._judge()

    def _judge(self) -> None:
        missing = [
            word
            for word, text in ((self.tr("a file"), self.file), (self.tr("an environment"), self.env_id))
            if not text.text().strip()
        ]
        self.start.setEnabled(not missing)
        self._tell(self.tr("Needs {what}.").format(what=" and ".join(missing)) if missing else "")

    def _browse(self) -> None:
        dialog = QFileDialog(self, self.tr("Choose a model file"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        endings = " ".join(f"*{ending}" for ending in self._endings)
        dialog.setNameFilters([self.tr("Models ({endings})").format(endings=endings), self.tr("All files (*)")])
        dialog.fileSelected.connect(self.file.setText)
        dialog.open()

    def _import(self) -> None:
        file, paths = Path(self.file.text().strip()).expanduser(), self._cockpit.bridge.paths
        algo, env_id = self.algo.currentText(), self.env_id.text().strip()
        self.start.setEnabled(False)
        self._tell(self.tr("Importing…"))
        self._converter = converter = ToolHandle()

        def work() -> dict[str, Any]:
            if not file.is_file():
                raise FileNotFoundError(f"There is no file {file}.")
            return import_file(file, algo, env_id, import_name(file, None, paths), paths, converter.take)

        self._cockpit.bridge.in_background(work, self._done, self._failed, owner=self)

    def close_panel(self) -> None:
        """An import that is under way ends now and leaves nothing behind."""
        self._converter.stop()

    def _done(self, told: dict[str, Any]) -> None:
        self.start.setEnabled(True)
        self._tell(self.tr("Imported."), "good")
        self.imported.emit(told)

    def _failed(self, sentence: str) -> None:
        self.start.setEnabled(True)
        self._tell(sentence, "error")

    def _tell(self, sentence: str, role: str = "muted") -> None:
        self.told.setText(sentence)
        set_style_property(self.told, "role", role)
