"""A field for a path on the disk, with a button that looks for one."""

from __future__ import annotations

from PyQt6.QtWidgets import QFileDialog, QGridLayout, QToolButton, QWidget

from gym_gui.ui.forms.field_editor import RESET_WIDTH, FieldEditor
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Theme, Themes


class PathField(FieldEditor):
    """Takes typed paths and those that the file dialog brings; the dialog blocks nothing."""

    def __init__(
        self, spec: FieldSpec, themes: Themes, *, folder: bool = False, filters: str = "", parent: QWidget | None = None
    ) -> None:
        self.browse = QToolButton()
        super().__init__(spec, themes, parent)
        self._folder, self._filters = folder, filters
        self.browse.setToolTip(self.tr("Look for it on the disk"))
        self.browse.setAccessibleName(self.tr("Browse for {field}").format(field=spec.title))
        self.browse.clicked.connect(self.open_dialog)
        self.browse.setFixedSize(RESET_WIDTH, RESET_WIDTH)
        self._dress_browse(themes.theme)
        themes.changed.connect(self._dress_browse)

    def _place_buttons(self, grid: QGridLayout) -> None:
        grid.addWidget(self.browse, 0, 2)
        grid.addWidget(self.reset_button, 0, 3)

    def open_dialog(self) -> QFileDialog:
        dialog = QFileDialog(self, self.spec.title, str(self.entry), self._filters)
        mode = QFileDialog.FileMode.Directory if self._folder else QFileDialog.FileMode.ExistingFile
        dialog.setFileMode(mode)
        dialog.fileSelected.connect(self.put)
        dialog.open()
        return dialog

    def forbid(self, reason: str) -> None:
        super().forbid(reason)
        self.browse.setEnabled(not reason)

    def _dress_browse(self, theme: Theme) -> None:
        self.browse.setIcon(icon("folder", theme.colour("text")))
