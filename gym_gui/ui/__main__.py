"""``python -m gym_gui.ui``: open the cockpit."""

from __future__ import annotations

import sys

from gym_gui.ui.app import main

if __name__ == "__main__":
    sys.exit(main())
