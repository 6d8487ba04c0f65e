"""Running training scripts bare: ours and upstream's, in the interpreters that they need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.daemon import BenchmarkError
from benchmarks.daemon_overhead import Speed
from benchmarks.machine import ROOT, SCRATCH, CpuTrace
from benchmarks.tensorboard_points import logged_points

OURS = ROOT / "cleanrl_worker" / "cleanrl"
_PREPARED = """
import runpy, sys
from pathlib import Path
from mosaic_worker.harness.source import ScriptSource
from mosaic_worker.harness.surroundings import prepare
sys.argv = sys.argv[1:]
prepare(ScriptSource.read(Path(sys.argv[0])), [], sys.argv[1:])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class BareScript:
    """A script, the interpreter for it, and what must be on its import path."""

    python: Path
    path: Path
    import_path: str = ""
    prepared: bool = False
    """Whether games are registered for it first, which today's ALE does not do for the gym of then."""

    @classmethod
    def ours(cls, name: str) -> BareScript:
        return cls(Path(sys.executable), OURS / f"{name}.py", str(ROOT))

    @contextmanager
    def started(self, flags: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
        """The running process and the folder it works in, which is gone afterwards."""
        # An interpreter of upstream's must not see our packages, nor those of the caller's shell.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": self.import_path, "WANDB_MODE": "disabled"}
        with tempfile.TemporaryDirectory(prefix="script-", dir=SCRATCH) as folder:
            prefix = ["-c", _PREPARED] if self.prepared else []
            command = [str(self.python), *prefix, str(self.path), *flags]
            child = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            try:
                yield child, Path(folder)
            finally:
                if child.poll() is None:
                    child.kill()
                    child.communicate()

    def require_success(self, child: subprocess.Popen[str]) -> None:
        """Wait for the end. Raises BenchmarkError."""
        _, errors = child.communicate()
        if child.returncode != 0:
            last_line = (errors.strip().splitlines() or ["it said nothing"])[-1]
            where = f"{self.path.name} in {self.path.parent}"
            raise BenchmarkError(f"{where} exited with status {child.returncode}: {last_line}")

    def speed(self, flags: Sequence[str]) -> Speed:
        """Train once and tell how fast it went, from the first to the last point of `charts/SPS`."""
        with self.started(flags) as (child, folder):
            trace = CpuTrace([child.pid])
            self.require_success(child)
            trace.finish()
            first, *_, last = logged_points(folder)
            (cpu,) = trace.between(first.wall_time, last.wall_time)
            return Speed(last.step - first.step, last.wall_time - first.wall_time, cpu)
