"""The fork server has imported what runs share before the first of them begins, data included."""

from __future__ import annotations

import subprocess
import sys


def test_a_run_that_was_forked_imports_only_its_script() -> None:
    program = (
        "import sys\n"
        "from corl_worker.warm_up import warm_up\n"
        "warm_up()\n"
        "warmed = set(sys.modules)\n"
        "import corl_worker.corl.iql\n"
        "names = set(sys.modules) - warmed\n"
        "late = sorted(name for name in names if name.startswith(('corl', 'mosaic', 'h5py', 'torch')))\n"
        "assert late == ['corl_worker.corl', 'corl_worker.corl.iql'], late\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
