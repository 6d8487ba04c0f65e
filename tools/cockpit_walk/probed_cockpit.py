"""The cockpit as ``mosaic gui`` opens it, with a probe: ``python -m tools.cockpit_walk.probed_cockpit SOCKET``.

The probe lives here and not in the product: nobody can turn it on in a cockpit that is used.
"""

from __future__ import annotations

import sys

from PyQt6.QtWidgets import QApplication

from gym_gui.ui import app as cockpit
from tools.cockpit_walk.probe import Probe


class ProbedCockpit(cockpit.CockpitApp):
    """The same, and it says what can be seen of it."""

    def open(self) -> None:
        super().open()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        Probe(sys.argv[1], app)


def main() -> int:
    cockpit.CockpitApp = ProbedCockpit  # type: ignore[misc]
    return cockpit.main(["mosaic"])


if __name__ == "__main__":
    sys.exit(main())
