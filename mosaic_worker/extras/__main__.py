"""``python -m mosaic_worker.extras --set wandb``: install the sets that belong to no worker in particular."""

from __future__ import annotations

import sys

from mosaic_worker.extras.install import main
from mosaic_worker.extras.kit_sets import KIT_EXTRAS

if __name__ == "__main__":
    sys.exit(main(KIT_EXTRAS))
