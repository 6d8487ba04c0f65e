"""Where the design looks for the worker's words about its run: :mod:`mosaic_worker.supervision.telemetry`."""

from mosaic_worker.supervision.telemetry import LifecycleEmitter, SessionEmitter, StdoutEmitter

__all__ = ["LifecycleEmitter", "SessionEmitter", "StdoutEmitter"]
