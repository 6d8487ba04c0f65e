"""What is said of a replay: pure, from what its process told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PyQt6.QtCore import QCoreApplication

from gym_gui.services.run_words import counted, quantity
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.replay_messages import Checked

if TYPE_CHECKING:
    from gym_gui.services.replay.recorded_evaluations import RecordedEvaluation
    from gym_gui.ui.replay.desk import Opened


def _tr(text: str) -> str:
    return QCoreApplication.translate("Replay", text)


@dataclass(frozen=True)
class Said:
    """Words, the colour of the theme they have, and the whole sentence where there is more to say."""

    text: str
    colour: str = "idle"
    sentence: str = ""

    @property
    def role(self) -> str:
        """The same colour as a label's role."""
        return {"good": "good", "warning": "warning", "bad": "error"}.get(self.colour, "muted")


def badge(checked: Checked | None, gone: str = "") -> Said:
    """The verdict beside the title."""
    if checked is None:
        return Said(_tr("not verified"), "warning", gone) if gone else Said(_tr("checking…"))
    counts = {"verified": f"{checked.verified:,}", "steps": f"{checked.steps:,}"}
    if checked.difference is not None:
        text = _tr("differs from step {place}").format(place=f"{checked.difference.place:,}")
        return Said(text, "warning", checked.difference.sentence)
    if checked.stopped:
        return Said(_tr("verified {verified}/{steps} steps").format(**counts), "bad", checked.stopped)
    if checked.done:
        colour = "good" if checked.verified == checked.steps else "warning"
        return Said(_tr("verified {verified}/{steps} steps").format(**counts), colour, _what_was_compared(checked))
    if gone:
        return Said(_tr("verified {verified}/{steps} steps").format(**counts), "warning", gone)
    return Said(_tr("checking {verified}/{steps}").format(**counts))


def card_badge(checked: Checked | None) -> Said:
    """The same in the fewest words."""
    if checked is None or not checked.done:
        return Said("")
    said = badge(checked)
    is_whole = checked.difference is None and not checked.stopped and checked.verified == checked.steps
    return Said("✓ " + _tr("verified"), "good", said.sentence) if is_whole else said


def evaluation_words(one: RecordedEvaluation) -> str:
    """A recorded evaluation in a line: the checkpoint, how it acted, how often, and what it reached."""
    parts = [_tr("step {step}").format(step=f"{one.step:,}"), _tr(one.mode), counted(one.episodes, _tr("episode"))]
    parts += [_tr("mean {mean}").format(mean=quantity(one.mean))] if one.mean is not None else []
    return _tr("Evaluation") + ": " + " · ".join(one_line(part) for part in parts)


def verdict_here(now: Opened, place: int) -> Said:
    """Whether the step at a place is as recorded."""
    checked = now.checked
    if checked is None:
        return Said("")
    if checked.difference is not None and place >= checked.difference.place:
        return Said(_tr("differs") if place == checked.difference.place else _tr("not comparable"), "warning")
    if place < checked.checked and checked.checked > checked.verified:
        return Said(_tr("no difference"))  # of some steps there was nothing to compare
    if place < checked.verified or (checked.done and place == checked.verified == checked.steps):
        return Said("✓ " + _tr("same as recorded"), "good")
    return Said(_tr("not checked yet") if not checked.done else _tr("not checked"))


def why_verified(now: Opened) -> str:
    """What the verdict means, in a sentence or two."""
    checked = now.checked
    if now.gone:
        return _tr("{why}. The recorded steps can still be looked at.").format(why=_sentence(now.gone))
    if checked is None or not (checked.done or checked.difference):
        return ""
    if checked.stopped:
        return _sentence(checked.stopped) + "."
    if checked.difference is None:
        return _what_was_compared(checked)
    said = [f"{_sentence(checked.difference.sentence)}."]
    if checked.repeats_itself is False:
        said.append(
            _tr("The environment is not deterministic: simulated twice from this seed, it differs from itself.")
        )
    elif checked.other_versions:
        moved = ", ".join(f"{name} {was or '–'} → {now or '–'}" for name, (was, now) in checked.other_versions.items())
        said.append(_tr("It was recorded with other versions: {moved}.").format(moved=moved))
    elif checked.repeats_itself:
        said.append(_tr("It was recorded with another version or other settings, or the recording was changed."))
    return " ".join(said)


def picture_note(now: Opened, place: int) -> str:
    """What is to be known of the picture; empty where it is the simulation's own."""
    shown = now.shown
    if now.gone:
        return _tr("{why}. What was recorded is shown.").format(why=_sentence(now.gone))
    if now.trouble:
        return _sentence(now.trouble) + "."
    if shown is None or shown.place != place or (shown.source == "simulation" and not shown.why):
        return ""
    if now.clip is not None:
        return _sentence(shown.why) + "." if shown.why else ""
    if shown.source == "clip":
        return _tr("{why}: this picture was recorded.").format(why=_sentence(shown.why))
    return _tr("{why}. No picture of this step was recorded.").format(why=_sentence(shown.why)) if shown.why else ""


def _what_was_compared(checked: Checked) -> str:
    if checked.verified < checked.steps:
        return _tr("Neither observation nor reward was recorded of {left} steps: they are not verified.").format(
            left=f"{checked.steps - checked.verified:,}"
        )
    if not checked.observations:
        return _tr("Observations were not recorded: rewards and ends were compared, and are the same.")
    if min(checked.observations, checked.rewards) < checked.steps:
        counts = {"observations": f"{checked.observations:,}", "rewards": f"{checked.rewards:,}"}
        said = _tr("Verified as far as it was recorded: {observations} observations, {rewards} rewards and every end.")
        return said.format(**counts)
    return _tr("Verified: the recorded seed and actions gave the same observations, rewards and end, to the bit.")


def number_words(value: float, *, signed: bool = False) -> str:
    """A number in a few characters, with a true minus sign."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else _tr("not a number")
    size = abs(value)
    if size == int(size) and size < 1e7:
        text = f"{int(size):,}"
    else:
        text = f"{size:.3f}" if 1e-3 <= size < 1000 else f"{size:,.4g}"
    return f"{'−' if value < 0 else '+' if signed and value > 0 else ''}{text}"


def _sentence(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].upper() + text[1:]
