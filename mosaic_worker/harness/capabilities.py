"""Which services of the harness a script can use, judged by its source alone, each with a reason."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from mosaic_worker.harness.source import ScriptSource

_WRITERS = ("torch.utils.tensorboard", "tensorboardX", "stable_baselines3")


@dataclass(frozen=True)
class Capability:
    """One thing that can be done with a run; ``why`` is a short sentence without a full stop."""

    offered: bool
    why: str


Capabilities = dict[str, Capability]


def of_source(source: ScriptSource, doors: Container[str] = ()) -> Capabilities:
    """metrics, pause, stop, checkpoint, warm_start and resume, in this order. ``doors``: the libraries that a door
    stands for."""
    if source.speaks:
        own = Capability(True, "the script speaks to its supervisor itself")
        return dict.fromkeys(("metrics", "pause", "stop", "checkpoint", "warm_start", "resume"), own)
    return {
        "metrics": _metrics(source, doors),
        "pause": Capability(True, f"between two {'turns of its loop' if source.loop else 'Python instructions'}"),
        "stop": Capability(True, "with a last checkpoint" if _trains_with_torch(source) else "without a checkpoint"),
        "checkpoint": _checkpoint(source),
        "warm_start": _warm_start(source),
        "resume": _resume(source),
    }


def as_json(found: Capabilities) -> dict[str, dict[str, object]]:
    return {name: {"offered": one.offered, "why": one.why} for name, one in found.items()}


def writer_of(source: ScriptSource) -> str | None:
    """The library whose TensorBoard writer it imports."""
    return next((name for name in _WRITERS if name in source.imports), None)


def _metrics(source: ScriptSource, doors: Container[str]) -> Capability:
    if "wandb" in doors and "wandb" in source.imports:
        return Capability(True, "every row it gives to wandb.log is heard, and no account is needed")
    writer = writer_of(source)
    if writer is None:
        return Capability(False, "it imports no TensorBoard writer, so there is nothing to listen to")
    return Capability(True, f"every scalar it gives to {writer} is heard")


def _checkpoint(source: ScriptSource) -> Capability:
    if source.loop is None:
        return Capability(False, "no training loop was found in the file")
    if not _trains_with_torch(source):
        return Capability(False, "its parameters are not PyTorch's")
    return Capability(True, f"of what its loop at line {source.loop.node.lineno} trains and carries")


def _warm_start(source: ScriptSource) -> Capability:
    found = _checkpoint(source)
    return Capability(True, "parameters of the same names are loaded before its loop") if found.offered else found


def _resume(source: ScriptSource) -> Capability:
    found = _checkpoint(source)
    if not found.offered or source.loop is None:
        return found
    if not source.loop.once:
        return Capability(False, f"its loop is in {source.loop.function}(), which may be called more than once")
    return Capability(True, "its loop goes on where it was; the log names what could not be kept")


def _trains_with_torch(source: ScriptSource) -> bool:
    return source.loop is not None and "torch" in source.imports and "jax" not in source.imports
