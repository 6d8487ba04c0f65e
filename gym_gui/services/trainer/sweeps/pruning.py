"""Which trials stop at a rung, and which of those go on after all, decided purely: successive halving (asha) and the
median."""

from __future__ import annotations

from gym_gui.services.sweeps.model import MEDIAN_NEEDS, Sweep, Trial, TrialState


def why_stop(sweep: Sweep, trial: Trial, step: int, value: float) -> str:
    """Why a trial does not go on beyond a rung, "" when it does."""
    sign = sweep.spec.sign()
    others = sorted((sign * one for number, one in _at_rung(sweep, step) if number != trial.number), reverse=True)
    mine, where = sign * value, f"pruned at step {step:,}"
    if sweep.spec.pruner == "asha":
        rank, kept = 1 + sum(one > mine for one in others), _kept(sweep, len(others) + 1)
        return "" if rank <= kept else f"{where}: number {rank} of {len(others) + 1} there, and the best {kept} go on"
    if sweep.spec.pruner == "median" and len(others) >= MEDIAN_NEEDS:
        middle = _median(others)
        told = sign * middle
        return "" if mine >= middle else f"{where}: {value:.4g} is worse than the median of {told:.4g} there"
    return ""


def _kept(sweep: Sweep, count: int) -> int:
    """How many of a rung go on. The first one does: nobody knows better yet, and waiting would leave a slot empty."""
    return max(1, count // sweep.spec.eta)


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _at_rung(sweep: Sweep, step: int) -> list[tuple[int, float]]:
    found = ((trial.number, trial.at_rung(step)) for trial in sweep.trials if trial.last_rung >= step)
    return [(number, value) for number, value in found if value is not None]


def promotable(sweep: Sweep) -> Trial | None:
    """A pruned trial that is among the best of its rung now that others were there; the highest rung first."""
    if sweep.spec.pruner != "asha":
        return None
    sign = sweep.spec.sign()
    for step in reversed(sweep.spec.rungs):
        ranked = sorted(_at_rung(sweep, step), key=lambda one: (-sign * one[1], one[0]))
        for number, _ in ranked[: _kept(sweep, len(ranked))] if ranked else ():
            trial = sweep.trials[number]
            if trial.state is TrialState.PRUNED and trial.last_rung == step:
                return trial
    return None
