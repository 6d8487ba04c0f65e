"""The few numbers that say how a run does. Without Qt."""

from __future__ import annotations

from dataclasses import dataclass

from gym_gui.services.run_words import duration, is_over, ordinal, percent
from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.plots.axis_text import steps_text, value_text
from gym_gui.ui.plots.run_metrics import RunMetrics
from mosaic_protocol.headline import LENGTH_TAG, MEAN_RETURN, RETURN_TAG, SPS_TAG
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Desired, Outcome, RunState

_STALLED = 30.0


@dataclass(frozen=True)
class KeyNumbers:
    """Each as text, "–" where it is not known."""

    mean_return: str
    length: str
    speed: str
    elapsed: str
    remaining: str
    steps: str
    progress: str
    percent: int | None


def key_numbers(row: RunRow, metrics: RunMetrics | None, now: float) -> KeyNumbers:
    """From the daemon's newest word and the points that came; ``now`` is monotonic."""
    run = row.run
    step = int(run.last_step)
    if metrics is not None and RETURN_TAG in metrics.series and not is_over(run):
        step = max(step, int(metrics.series[RETURN_TAG].buffer.steps[-1]))  # metrics come more often than words
    recent = metrics.recent_episodes if metrics is not None else lambda tag: None
    # The daemon's number comes first: the list of runs shows it too, and one screen must not say two.
    mean_return = run.headline.get(MEAN_RETURN)
    left = row.remaining(now)
    speed = (metrics.recent_mean(SPS_TAG, 1) if metrics is not None else None) or run.headline.get(SPS_TAG)
    total = f" / {run.total_steps:,}" if run.total_steps else ""
    return KeyNumbers(
        mean_return=value_text(recent(RETURN_TAG) if mean_return is None else mean_return),
        length=value_text(recent(LENGTH_TAG)),
        speed=value_text(None if speed is None else round(speed)),
        elapsed=duration(row.elapsed(now)) if row.elapsed(now) > 0 else "–",
        remaining="–" if left is None else duration(left),
        steps=f"{step:,}{total}" if step or total else "–",
        progress=f"{steps_text(step)} / {steps_text(run.total_steps)}" if run.total_steps else steps_text(step),
        percent=None if not run.total_steps else min(100, max(percent(run), 100 * step // run.total_steps)),
    )


def description(run: pb.Run) -> str:
    """``ppo · CartPole-v1 · seed 1``."""
    seed = f"seed {run.seed}" if run.HasField("seed") else ""
    parts = [run.algo, run.env_id, seed, f"{run.worker_type} worker"]
    return " · ".join(part for part in parts if part)


def situation(run: pb.Run, place_in_line: int = 0) -> tuple[str, str]:
    """A sentence about where the run is, and its kind: "", "good", "warning" or "error".

    ``place_in_line`` of a run that waits, where more is known than the run says: it is not updated when others leave.
    """
    if is_over(run):
        kind = {Outcome.COMPLETED.value: "good", Outcome.CANCELED.value: ""}.get(run.outcome, "error")
        return _sentence(run.reason or run.outcome), kind
    if run.reason and run.state in (RunState.INIT, RunState.HSHK) and run.desired != Desired.STOP:
        return _sentence(run.reason), "warning"  # what it waits for beside its turn
    if run.state == RunState.INIT:
        number = place_in_line or run.queue_position
        place = f"{ordinal(number)} in line" if number else "about to start"
        return f"Waits for its turn: {place}.", ""
    if run.state in (RunState.HSHK, RunState.RDY):
        return "The worker starts.", ""
    if run.state == RunState.EXEC and run.seconds_since_progress > _STALLED:
        return f"No step for {duration(run.seconds_since_progress)}.", "warning"
    return _sentence(run.reason), ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] if text else ""
