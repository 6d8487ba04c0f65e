"""Checkpoints of upstream's scripts under the names of MOSAIC's: what they learned can be measured and deployed.

Only where MOSAIC has the same network. `ppo_continuous_action` is left out: upstream keeps the statistics that
observations are normalised with in wrappers of the environment, and a policy without them is another one.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from cleanrl_worker.foreign_names import LAYOUTS, Layout, Tensors, fit
from cleanrl_worker.import_checkpoint import blueprint
from mosaic_worker.errors import UsageError
from mosaic_worker.state.checkpoints import Checkpoint

_PREFIX = "cleanrl/"
_NORMALISED_ELSEWHERE = ("ppo_continuous_action",)


def algorithm_of(algo: str) -> str | None:
    """Ours whose networks a script of upstream's has, None where there is none."""
    name = algo.removeprefix(_PREFIX)
    return name if algo.startswith(_PREFIX) and name in LAYOUTS and name not in _NORMALISED_ELSEWHERE else None


def translated(checkpoint: Checkpoint, script: ModuleType) -> Checkpoint:
    """The networks of a checkpoint as our script has them. Raises UsageError where they differ."""
    manifest = checkpoint.manifest
    algo = algorithm_of(manifest.algo)
    assert algo is not None
    plan = blueprint(script, {**manifest.args, "env_id": manifest.env_id})
    fitted = fit(_networks(checkpoint.tensors, LAYOUTS[algo]), plan.tensors, LAYOUTS[algo])
    if fitted.problems:
        why = "; ".join(fitted.problems[:3])
        raise UsageError(f"the networks of {manifest.algo} are not those of {algo} on {manifest.env_id}: {why}")
    # Old libraries describe the same spaces in other words; that they are the same is what fitting has shown.
    return replace(checkpoint, kept=fitted.tensors, manifest=replace(manifest, spaces=plan.spaces))


def _networks(tensors: Tensors, layout: Layout) -> Tensors:
    """Those parameters that an exported file would have, under the names that they have there."""
    parts = {layout.whole, *layout.also, *layout.copies, *(one for pair in layout.twins for one in pair)}
    kept = {name: one for name, one in tensors.items() if name.partition(".")[0] in parts}
    return {name.removeprefix(f"{layout.whole}."): one for name, one in kept.items()}
