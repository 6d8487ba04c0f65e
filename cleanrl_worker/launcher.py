"""Where the design looks for the launcher: it is :mod:`mosaic_worker.supervision.launcher`, for any worker."""

from mosaic_worker.supervision.launcher import become_script, run_script

__all__ = ["become_script", "run_script"]
