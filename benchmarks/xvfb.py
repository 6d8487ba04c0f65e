"""A measurement in a process of its own, on a screen of its own; both are gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.daemon import BenchmarkError


def measured_under_xvfb(module: str, arguments: Sequence[str], patience: float) -> Any:
    """Run ``python -m module arguments`` under Xvfb; what it printed last, which is JSON. Raises BenchmarkError."""
    if shutil.which("xvfb-run") is None:
        raise BenchmarkError("xvfb-run is not installed: `apt install xvfb xauth` brings it")
    command = ["xvfb-run", "-a", "-s", "-screen 0 1280x800x24", sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "QT_QPA_PLATFORM": "xcb"}
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, problem = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        raise BenchmarkError("the window did not end in time") from None
    finally:
        _end_group(child)
    if child.returncode != 0:
        raise BenchmarkError(f"the window could not be measured: {(problem.strip() or output.strip())[-500:]}")
    return json.loads(output.splitlines()[-1])


def _end_group(child: subprocess.Popen[str]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.wait()
