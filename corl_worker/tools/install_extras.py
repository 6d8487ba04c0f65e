"""``python -m corl_worker.tools.install_extras --set mujoco,wandb``: the CORL worker's sets of extras, installed
by :mod:`mosaic_worker.extras.install`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from corl_worker.tools.extras import EXTRAS
from mosaic_worker.extras import install
from mosaic_worker.extras.record import applied_sets

__all__ = ["applied_sets", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    return install.main(EXTRAS, arguments)


if __name__ == "__main__":
    sys.exit(main())
