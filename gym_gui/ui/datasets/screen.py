"""The dataset manager as a whole: the list below, a dataset or the making of one on the stage, and its commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtWidgets import QDockWidget, QFileDialog, QLineEdit, QWidget

from gym_gui.services.run_words import size
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.make_page import MakePage
from gym_gui.ui.datasets.page import DatasetPage
from gym_gui.ui.datasets.panel import DOING, DatasetsPanel
from gym_gui.ui.datasets.references_bar import ReferencesBar
from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.datasets import DatasetEntry, Integrity
from mosaic_protocol.plain_text import one_line

_FOLDER = "datasets.folder"


class DatasetScreen(QObject):
    """One for a window. ``train_wanted(str)``: somebody wants to learn from this dataset. ``replay_wanted(str, int)``:
    an episode of a run."""

    train_wanted = pyqtSignal(str)
    replay_wanted = pyqtSignal(str, int)

    def __init__(self, cockpit: Cockpit, stage: Stage) -> None:
        super().__init__(stage)
        self._cockpit, self._stage = cockpit, stage
        self.shelf = DatasetShelf.of(cockpit.bridge)
        self.panel: DatasetsPanel | None = None
        self._awaited = ""
        """What was made and is to be shown, until the list has it."""
        self.page = DatasetPage(cockpit, self.shelf)
        self.making = MakePage(cockpit, self.shelf)
        self._add_commands()
        for page in (self.page, self.making):
            page.setParent(stage)  # until it is shown
            page.hide()
            page.left.connect(self.close)
        self.page.replay_wanted.connect(self.replay_wanted)
        self.making.made.connect(self._made)
        stage.closing.connect(self.page.close_page)
        stage.displaced.connect(self._offer)
        cockpit.selection.changed.connect(lambda _: self._leave_stage())
        self.shelf.changed.connect(self._offer)
        self.shelf.job_changed.connect(self._offer)
        self.shelf.told.connect(self._notify)
        self.shelf.open_wanted.connect(self.open)
        self._offer()

    def make_panel(self) -> DatasetsPanel:
        panel = self.panel = DatasetsPanel(self._cockpit, self.shelf)
        self.minari = QLineEdit()
        self.minari.setAccessibleName(self.tr("What Minari calls it"))
        self.minari.setPlaceholderText(self.tr("such as cartpole/mine-v0"))
        self.minari_bar = AskBar(self.minari, harmless=True)
        layout = panel.layout()
        assert layout is not None
        layout.addWidget(self.minari_bar)
        self.references_bar = ReferencesBar(self._cockpit.themes, self.shelf)
        layout.addWidget(self.references_bar)
        panel.chosen.connect(self._chosen)
        self.shelf.changed.connect(self._show_awaited)  # behind the panel, whose list has to have it
        self._offer()
        return panel

    # ---- opening -------------------------------------------------------------------------------------------------

    def open(self, name: str) -> None:
        """Show a dataset on the stage."""
        if self.panel is not None and self.panel.selected != name:
            self.panel.blockSignals(True)
            self.panel.choose(name)
            self.panel.blockSignals(False)
        self.page.show_dataset(name)
        self._stage.show_over(self.page)
        self._offer()

    def make(self, kind: str) -> None:
        """Show what is needed to make a dataset."""
        self.making.open_kind(kind, self.entry.name if self.entry is not None else "")
        self._stage.show_over(self.making)
        self.making.setFocus()
        self._offer()

    def close(self) -> None:
        """Give the stage back."""
        self._leave_stage()
        if self.panel is not None and self.panel.isVisible():
            self.panel.setFocus()

    def _leave_stage(self) -> None:
        for page in (self.page, self.making):
            self._stage.end_over(page)
        self._offer()

    @property
    def _is_on_stage(self) -> bool:
        return self._stage.over in (self.page, self.making)

    def _chosen(self, name: str) -> None:
        if name:
            self.open(name)
        elif self._stage.over is self.page:
            self._leave_stage()
        self._offer()

    def _made(self, name: str) -> None:
        self._awaited = name
        self._show_awaited()  # the list may have it before the process that made it has ended

    def _show_awaited(self) -> None:
        if self._awaited and self.shelf.get(self._awaited) is not None:
            name, self._awaited = self._awaited, ""
            if self._stage.over is self.making:
                self.open(name)

    def _notify(self, sentence: str, role: str, subject: str) -> None:
        """Work may end while somebody looks elsewhere."""
        if sentence and (self.panel is None or not self.panel.isVisible()):
            self._cockpit.notify(Notice(sentence, role if role in ("error", "warning", "good") else "info"))

    # ---- commands ------------------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr, menu, add = self.tr, "File/Datasets", self._cockpit.commands.add
        making = {
            "import": (tr("Import a file…"), tr("Make a dataset of an HDF5 file of D4RL's or Minari's"), "hdf5 d4rl"),
            "from-run": (tr("Make from a run…"), tr("Make a dataset of what a run recorded"), "replay buffer record"),
            "collect": (tr("Collect from policies…"), tr("Let policies play until there are enough steps"), "play mix"),
            "download": (tr("Download…"), tr("Fetch a dataset from the net and import it"), "url d4rl archive"),
            "merge": (tr("Merge datasets…"), tr("Make one dataset of all episodes of several"), "join put together"),
            "split": (tr("Split the dataset…"), tr("Make several datasets of whole episodes of one"), "held out test"),
        }
        for kind, (title, text, also) in making.items():
            command = Command(f"datasets-{kind}", title, menu, "", text, f"dataset {also}")
            add(command, partial(self.make, kind))
        doing = {
            "train": (tr("Train on this dataset…"), tr("Put the dataset into the form for offline runs"), self.train),
            "verify": (tr("Verify"), tr("Hash every byte of the dataset; its badge follows"), self.verify),
            "references": (
                tr("Measure references…"),
                tr("Play random actions and an expert: what counts as 0 and as 100 in scores"),
                self.ask_references,
            ),
            "export": (tr("Export as HDF5…"), tr("Write the dataset as one HDF5 file in D4RL's form"), self.ask_export),
            "minari": (tr("Export to Minari…"), tr("Put it where Minari looks for datasets"), self.ask_minari),
            "delete": (tr("Delete…"), tr("Remove the dataset; refused while a run or a checkpoint needs it"), self.ask),
        }
        for name, (title, text, act) in doing.items():
            add(Command(f"datasets-{name}", title, menu, "", text, "dataset prune remove"), act)
        text = tr("Stop the work on datasets that is under way; nothing half made is left")
        add(Command("datasets-cancel", tr("Give up the work"), menu, "", text, "dataset abort"), self.shelf.cancel)
        text = tr("Show the runs on the stage again")
        add(Command("datasets-close", tr("Close the dataset"), menu, "", text, "back"), self.close)

    @property
    def entry(self) -> DatasetEntry | None:
        """The dataset that is chosen."""
        name = self.panel.selected if self.panel is not None else ""
        return self.shelf.get(name or self.page.shown)

    def _offer(self) -> None:
        enable, tr = self._cockpit.commands.enable, self.tr
        busy = tr("Other work on datasets is under way.") if self.shelf.job is not None else ""
        for name in DOING:
            why = self._why_not(name) or ("" if name == "datasets-train" else busy)
            enable(name, not why, why)
        enable("datasets-cancel", self.shelf.job is not None, tr("Nothing is under way."))
        enable("datasets-close", self._is_on_stage, tr("No dataset is on the stage."))

    def _why_not(self, name: str) -> str:
        if self.entry is None:
            return self.tr("Choose a dataset first.")
        badge = self.entry.badge
        if name == "datasets-train" and self.entry.found is None:
            return self.tr("Its description cannot be read.")
        if name == "datasets-verify" and (self.entry.found is None or badge is Integrity.ABSENT):
            return self.tr("There is nothing to verify.")
        if name == "datasets-references" and self.entry.found is None:
            return self.tr("Its description cannot be read.")
        if name in ("datasets-export", "datasets-minari") and badge in (Integrity.ABSENT, Integrity.CORRUPT):
            return self.tr("Its data is not what was written, or is gone.")
        return ""

    # ---- doing ---------------------------------------------------------------------------------------------------

    def train(self) -> None:
        if self.entry is not None:
            self.train_wanted.emit(self.entry.name)

    def verify(self) -> None:
        if self.entry is not None and not self._why_not("datasets-verify"):
            self.shelf.verify(self.entry.name)

    def ask_export(self) -> QFileDialog | None:
        """Ask where to, without blocking, and begin when an answer comes."""
        entry = self.entry
        if entry is None or self._why_not("datasets-export"):
            return None
        dialog = QFileDialog(self._stage, self.tr("Export {name}").format(name=entry.name))
        folder = Path(self._cockpit.preferences.get(_FOLDER, "") or Path.home())
        dialog.setDirectory(str(folder if folder.is_dir() else Path.home()))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("HDF5 (*.hdf5)")
        dialog.setDefaultSuffix("hdf5")
        dialog.selectFile(f"{entry.name}.hdf5")
        dialog.fileSelected.connect(lambda chosen, name=entry.name: self.export(name, Path(chosen)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def export(self, name: str, file: Path) -> None:
        self._cockpit.preferences.put(_FOLDER, str(file.parent))
        written = self.tr("{file} was written").format(file=file.name)
        title, words = self.tr("Export {name}").format(name=name), ["export", "--d4rl", str(file), "--", name]
        self.shelf.work(words, title, name, lambda _: self.shelf.told.emit(written, "good", name))

    def ask_minari(self) -> None:
        entry = self.entry
        if entry is None or self.panel is None or self._why_not("datasets-minari"):
            return
        self._come_forward()
        self.references_bar.close_panel()
        self.minari_bar.ask(
            self.tr("What is Minari to call {name}?").format(name=entry.name),
            [],
            (self.tr("Export"), self.tr("Cancel")),
            self.tr("Writes it where Minari looks: minari.load_dataset reads it by this name"),
            partial(self._to_minari, entry.name),
        )
        self.minari.setFocus()

    def ask_references(self) -> None:
        """Ask which policy counts as the expert, and begin when an answer comes."""
        if self.entry is None or self.panel is None or self._why_not("datasets-references"):
            return
        self._come_forward()
        self.minari_bar.close_panel()
        self.references_bar.ask_about(self.entry.name)

    def _to_minari(self, name: str) -> None:
        wanted = self.minari.text().strip()
        done = lambda told: self.shelf.told.emit(f"{wanted}: {told.get('path')}", "good", name)  # noqa: E731
        words = ["export", "--minari", wanted, "--", name]
        self.shelf.work(words, self.tr("Export {name}").format(name=name), name, done)

    def ask(self) -> None:
        """Ask before a dataset is deleted; first of all who needs it."""
        entry = self.entry
        if entry is None or self.panel is None or self._why_not("datasets-delete"):
            return
        self._come_forward()
        title = self.tr("Delete {name}").format(name=entry.name)

        def looked(told: dict[str, Any]) -> None:
            needed = next((one.get("needed_by") for one in told.get("datasets", [])), None)
            if needed:
                text = self.tr("{name} is kept: {who} need it. `mosaic datasets prune --force` removes it all the same")
                self.shelf.told.emit(text.format(name=entry.name, who=one_line(str(needed))), "warning", entry.name)
            else:
                self._ask_for_certain(entry)

        self.shelf.work(["prune", "--dry-run", "--", entry.name], title, entry.name, looked)

    def _ask_for_certain(self, entry: DatasetEntry) -> None:
        assert self.panel is not None
        taken = size(entry.found.bytes) if entry.found is not None else ""
        name, title = entry.name, self.tr("Delete {name}").format(name=entry.name)
        gone = self.tr("{name} was deleted").format(name=name)
        done = lambda _: self.shelf.told.emit(gone, "muted", name)  # noqa: E731
        self.shelf.told.emit("", "muted", name)
        self.panel.ask_bar.ask(
            self.tr("Delete this dataset? It cannot be brought back.{size}").format(
                size=f" ({taken})" if taken else ""
            ),
            [name],
            (self.tr("Delete it"), self.tr("Keep it")),
            self.tr("Removes the file and its description from the disk"),
            lambda: self.shelf.work(["prune", "--", name], title, name, done),
        )

    def _come_forward(self) -> None:
        dock: QWidget | None = self.panel.parentWidget() if self.panel is not None else None
        if isinstance(dock, QDockWidget):
            dock.show()
            dock.raise_()
