"""``python -m skrl_worker.extras --set plots``: optional packages, installed on request."""

from __future__ import annotations

import sys

from mosaic_worker.extras import install
from mosaic_worker.extras.sets import ExtraSet, WorkerExtras

PLOTS = ExtraSet("plots of what was learned", requirements=("matplotlib>=3.9",), module="matplotlib")
EXTRAS = WorkerExtras("skrl_worker.extras", {"plots": PLOTS})

if __name__ == "__main__":
    sys.exit(install.main(EXTRAS))
