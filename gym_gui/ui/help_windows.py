"""What the Help menu opens: the user guide, and what this program is made of."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PyQt6.QtCore import PYQT_VERSION_STR, QT_VERSION_STR, QSize, Qt, QUrl
from PyQt6.QtGui import QImage, QKeySequence, QShortcut, QTextDocument
from PyQt6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.styling import tell
from mosaic_protocol.paths import MosaicPaths

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "user-guide.md"
_FRAME = 40
"""What a window manager puts around a window, at most."""
_PACKAGES = ("PyQt6", "pyqtgraph", "qtawesome", "grpcio", "numpy")


class HelpWindow(QDialog):
    """Stands beside the cockpit and blocks nothing; there is one of each kind."""

    @classmethod
    def open_once(cls, window: QWidget, *arguments: object) -> None:
        """Show it over a window: the one that is open already, or a new one, which is gone when it is closed."""
        found = window.findChild(cls)
        if found is None:
            found = cls(window, *arguments)
            found.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        found.show()
        found.raise_()
        found.activateWindow()


class GuideWindow(HelpWindow):
    """The user guide, and the pages that it leads to."""

    def __init__(self, parent: QWidget, guide: Path = GUIDE) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("User guide"))
        self.resize(_fitting(self, 820, 680))
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.page = _Page()
        self.page.setAccessibleName(self.tr("User guide"))
        self.back = QPushButton(self.tr("Back"))
        self.back.setToolTip(self.tr("The page before this one (Alt+Left)"))
        self.back.setEnabled(False)
        self.back.clicked.connect(self.page.backward)
        self.page.backwardAvailable.connect(self.back.setEnabled)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.back, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        close = buttons.button(QDialogButtonBox.StandardButton.Close)
        if close is not None:
            close.setToolTip(self.tr("Close the guide (Esc)"))
        layout = QVBoxLayout(self)
        layout.addWidget(self.told)
        layout.addWidget(self.page, 1)
        layout.addWidget(buttons)
        QShortcut(QKeySequence("Alt+Left"), self, self.page.backward)
        self._open(guide)

    def _open(self, guide: Path) -> None:
        missing = self.tr("The guide is not installed here. It is docs/user-guide.md in MOSAIC's source folder.")
        tell(self.told, "" if guide.is_file() else missing, "warning")
        if guide.is_file():
            self.page.setSource(QUrl.fromLocalFile(str(guide)), QTextDocument.ResourceType.MarkdownResource)
        self.page.setFocus()


class _Page(QTextBrowser):
    """Pictures are as wide as the page at most; links to the web open in the browser."""

    def __init__(self) -> None:
        super().__init__()
        self.setOpenExternalLinks(True)

    def loadResource(self, kind: int, name: QUrl) -> object:
        found = super().loadResource(kind, name)
        if kind != QTextDocument.ResourceType.ImageResource.value:
            return found
        picture = QImage(self.source().resolved(name).toLocalFile())
        viewport = self.viewport()
        width = viewport.width() - 24 if viewport is not None else picture.width()
        if picture.isNull() or picture.width() <= width:
            return picture
        return picture.scaledToWidth(max(width, 100), Qt.TransformationMode.SmoothTransformation)


class AboutWindow(HelpWindow):
    """Versions, licences and where the data is, to read and to copy into a report."""

    def __init__(self, parent: QWidget, paths: MosaicPaths) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("About MOSAIC"))
        title = QLabel("MOSAIC")
        title.setProperty("role", "huge")
        summary = QLabel(self.tr("Launch, watch, compare and use reinforcement-learning runs."))
        summary.setProperty("role", "muted")
        self.facts = QLabel(self._facts(paths))
        self.facts.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.facts.setWordWrap(True)
        licences = QLabel(
            self.tr(
                "MOSAIC is under the MIT licence. The cockpit uses PyQt6, which is under the GPL version 3: to "
                "pass MOSAIC on together with it, meet the GPL's terms. Qt is under the LGPL version 3."
            )
        )
        licences.setWordWrap(True)
        licences.setProperty("role", "muted")
        self.copy = QPushButton(self.tr("Copy"))
        self.copy.setToolTip(self.tr("Copy versions and folder, for a report of a problem"))
        self.copy.clicked.connect(self._copy)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        close = buttons.button(QDialogButtonBox.StandardButton.Close)
        if close is not None:
            close.setToolTip(self.tr("Close this (Esc)"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 14)
        layout.setSpacing(10)
        for widget in (title, summary, self.facts, licences, buttons):
            layout.addWidget(widget)
        self.setMinimumWidth(460)
        if close is not None:
            close.setFocus()  # once it is in the window

    def _facts(self, paths: MosaicPaths) -> str:
        packages = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
        return "\n".join(
            [
                self.tr("Version {version}").format(version=_version("mosaic-rl")),
                f"Python {platform.python_version()}, Qt {QT_VERSION_STR}, PyQt {PYQT_VERSION_STR}",
                packages,
                self.tr("Data folder: {path}").format(path=paths.root),
                platform.platform(),
            ]
        )

    def _copy(self) -> None:
        copy_text(self.facts.text())


def _fitting(window: QWidget, width: int, height: int) -> QSize:
    """A size that leaves the last line of a window, with its frame, on the screen."""
    screen = window.screen()
    room = screen.availableGeometry().size() - QSize(2, _FRAME) if screen is not None else QSize(width, height)
    return QSize(width, height).boundedTo(room)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
