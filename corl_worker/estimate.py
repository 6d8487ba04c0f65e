"""``python -m corl_worker.estimate``: what a checkpoint of this worker would earn, estimated from a dataset.

The program is :mod:`mosaic_worker.policies.estimate`; the scripts say how their policies act.
"""

from __future__ import annotations

import sys

from corl_worker.config import PACKAGE
from mosaic_worker.policies.estimate import main

if __name__ == "__main__":
    sys.exit(main(PACKAGE))
