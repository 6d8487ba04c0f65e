"""Saving plots: asks where without blocking, writes pictures at once and tables in the background, says how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QFileDialog, QWidget

from gym_gui.services.file_names import safe_file_name
from gym_gui.ui.context import Cockpit
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.export import snapshots, write_csv
from gym_gui.ui.plots.images import write_png, write_svg
from gym_gui.ui.plots.run_metrics import RunMetrics
from gym_gui.ui.plots.tags import title_of
from gym_gui.ui.widgets.snackbar import Notice

NamedRuns = Sequence[tuple[RunMetrics, str]]
_WRITERS = {"png": write_png, "svg": write_svg}


class PlotExporter(QObject):
    """Belongs to the panel whose plots it saves. ``plots()`` are those on show by tag, ``runs()`` with their names."""

    def __init__(
        self,
        cockpit: Cockpit,
        panel: QWidget,
        plots: Callable[[], dict[str, CurvePlot]],
        runs: Callable[[], NamedRuns],
    ) -> None:
        super().__init__(panel)
        self._cockpit, self._panel, self._plots, self._runs = cockpit, panel, plots, runs

    def ask(self, kind: str, tag: str | None = None) -> QFileDialog:
        """Ask where to save one plot, or without a tag all of them, and do so when an answer comes."""
        to_folder = tag is None and kind != "csv"
        dialog = QFileDialog(self._panel, self.tr("Save plots") if tag is None else self.tr("Save the plot"))
        folder = Path(self._cockpit.preferences.get("metrics.export_folder", "") or Path.home())
        dialog.setDirectory(str(folder if folder.is_dir() else Path.home()))
        if to_folder:
            dialog.setFileMode(QFileDialog.FileMode.Directory)
        else:
            dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
            dialog.setNameFilter(f"{kind.upper()} (*.{kind})")
            dialog.setDefaultSuffix(kind)
            dialog.selectFile(f"{safe_file_name(tag or 'metrics')}.{kind}")
        dialog.fileSelected.connect(lambda chosen: self.save(kind, Path(chosen), tag))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def save(self, kind: str, path: Path, tag: str | None = None) -> None:
        """Write one plot to a file, all pictures into a folder, or all points into one table."""
        self._cockpit.preferences.put("metrics.export_folder", str(path if path.is_dir() else path.parent))
        plots = self._plots()
        wanted = plots if tag is None else {tag: plots[tag]} if tag in plots else {}
        if not wanted:
            self._refused(self.tr("there is nothing to save yet"))
        elif kind == "csv":
            self._save_table(path, list(wanted))
        else:
            self._save_pictures(kind, path, wanted)

    def _save_table(self, path: Path, tags: Sequence[str]) -> None:
        curves = snapshots(self._runs(), tags)
        said = self.tr("{count} points saved to {file}")
        self._cockpit.bridge.in_background(
            lambda: write_csv(path, curves),
            lambda count: self._done(said.format(count=f"{count:,}", file=path)),
            self._refused,
            owner=self,
        )

    def _save_pictures(self, kind: str, path: Path, plots: dict[str, CurvePlot]) -> None:
        theme = self._cockpit.themes.theme
        try:
            for tag, plot in plots.items():
                file = path / f"{safe_file_name(tag)}.{kind}" if path.is_dir() else path
                _WRITERS[kind](file, plot, title_of(tag), theme)
        except OSError as error:
            self._refused(str(error))
        else:
            count = self.tr("The plot") if len(plots) == 1 else self.tr("{number} plots").format(number=len(plots))
            self._done(self.tr("{count} saved to {file}").format(count=count, file=path))

    def _done(self, sentence: str) -> None:
        self._cockpit.notify(Notice(sentence, "good"))

    def _refused(self, sentence: str) -> None:
        self._cockpit.notify(Notice(self.tr("Not saved: {why}").format(why=sentence), "error"))
