"""``python -m corl_worker.evaluate``: play episodes with a checkpoint of this worker and report how it did.

The program is :mod:`mosaic_worker.policies.evaluate`; the scripts say how their policies act.
"""

from __future__ import annotations

import sys

from corl_worker.config import PACKAGE
from mosaic_worker.policies.evaluate import main

if __name__ == "__main__":
    sys.exit(main(PACKAGE))
