"""Where the design looks for the supervisor: :mod:`mosaic_worker.supervision.runtime`, for any worker's script."""

from mosaic_worker.supervision.runtime import ScriptRuntime as CleanRLWorkerRuntime
from mosaic_worker.supervision.wishes import Wishes

__all__ = ["CleanRLWorkerRuntime", "Wishes"]
