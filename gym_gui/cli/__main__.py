"""``python -m gym_gui.cli``: the ``mosaic`` command without its console script."""

from __future__ import annotations

import sys

from gym_gui.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
