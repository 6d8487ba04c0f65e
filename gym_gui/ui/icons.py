"""Icons in the colour of the theme, by what they stand for."""

from __future__ import annotations

import qtawesome
from PyQt6.QtGui import QColor, QIcon

_NAMES = {
    "run": "mdi6.play",
    "pause": "mdi6.pause",
    "resume": "mdi6.play-circle-outline",
    "stop": "mdi6.stop",
    "delete": "mdi6.trash-can-outline",
    "trash": "mdi6.delete-restore",
    "duplicate": "mdi6.content-copy",
    "copy": "mdi6.content-copy",
    "search": "mdi6.magnify",
    "theme": "mdi6.theme-light-dark",
    "log": "mdi6.text-box-outline",
    "metrics": "mdi6.chart-line",
    "tensorboard": "mdi6.chart-areaspline",
    "checkpoint": "mdi6.archive-outline",
    "doctor": "mdi6.stethoscope",
    "help": "mdi6.help-circle-outline",
    "reset": "mdi6.restore",
    "close": "mdi6.close",
    "open": "mdi6.open-in-new",
    "import": "mdi6.import",
    "download": "mdi6.download",
    "export": "mdi6.export-variant",
    "worker": "mdi6.robot-outline",
    "human": "mdi6.account-outline",
    "dice": "mdi6.dice-5-outline",
    "script": "mdi6.script-text-outline",
    "one-step": "mdi6.skip-next",
    "same-seed": "mdi6.restart",
    "next-seed": "mdi6.arrow-right",
    "undo": "mdi6.undo",
    "keyboard": "mdi6.keyboard-outline",
    "replay": "mdi6.movie-open-play-outline",
    "film": "mdi6.filmstrip",
    "dataset": "mdi6.database-outline",
    "merge": "mdi6.call-merge",
    "split": "mdi6.call-split",
    "take-over": "mdi6.source-branch",
    "first-step": "mdi6.skip-backward",
    "last-step": "mdi6.skip-forward",
    "step-back": "mdi6.skip-previous",
    "loop": "mdi6.repeat",
    "hand-over": "mdi6.swap-horizontal",
    "warning": "mdi6.alert-outline",
    "good": "mdi6.check-circle-outline",
    "bad": "mdi6.close-circle-outline",
    "refresh": "mdi6.refresh",
    "folder": "mdi6.folder-outline",
    "filter": "mdi6.filter-variant",
    "evaluate": "mdi6.target",
    "settings": "mdi6.cog-outline",
    "preset": "mdi6.bookmark-outline",
    "more": "mdi6.dots-vertical",
}


def icon(name: str, colour: QColor) -> QIcon:
    """The icon for a purpose; an unknown one is a programming error."""
    # By its name: qtawesome keeps every icon under the text of what it was asked for, and that of a QColor is its
    # address, so each call would leave one more icon behind.
    made: QIcon = qtawesome.icon(_NAMES[name], color=colour.name(QColor.NameFormat.HexArgb))
    return made
