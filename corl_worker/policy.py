"""``python -m corl_worker.policy --checkpoint DIR``: a policy of this worker's scripts answers observations.

The program is :mod:`mosaic_worker.policies.act`; the scripts say how their policies act.
"""

from __future__ import annotations

import sys

from corl_worker.config import PACKAGE
from mosaic_worker.policies.act import main

if __name__ == "__main__":
    sys.exit(main(PACKAGE))
