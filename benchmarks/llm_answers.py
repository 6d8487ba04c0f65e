"""What a grammar saves, and whether answers are valid: the small local model in each form of answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.llm_steps import Run, play
from benchmarks.local_model import local_python
from benchmarks.machine import SCRATCH
from benchmarks.report import Line, Section, Target

NAME = "llm_answers"
TITLE = "Language models: answers by grammar, by schema and in tags"
METHOD = """\
The small local model (SmolLM2-135M) plays slippery FrozenLake 4x4 by hand, the same seeds with answers by grammar, by
JSON schema and in tags, no answer from the cache, and by grammar in plans of four. Tokens are those that the model's
server counted, second turns included; what was asked for a step from a plan is part of the step that asked. The
success is that of a model of 135 million parameters: it plays no better than chance, and nothing is claimed of it."""
_FORMS = ("grammar", "schema", "tagged")


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page. Raises BenchmarkError."""
    python, episodes, forms = local_python(), 1 if quick else 6, _FORMS[: 2 if quick else 3]
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="llm-", dir=SCRATCH) as name:
        given: dict[str, Any] = {"model": "local", "python": python, "cache": False, "episodes": episodes}
        found = {form: play(Path(name), form=form, **given) for form in forms}
        planned = None if quick else play(Path(name), mode="plan", form="grammar", **given)
    tokens = {form: [float(one.get("tokens_out", 0)) for one in made.exchanges] for form, made in found.items()}
    ratio = mean(tokens["grammar"]) / mean(tokens["schema"])
    lines = [
        Line("Valid actions by grammar", [100 * _valid(found["grammar"])], "%", Target("≥", 100)),
        Line("Output tokens of a step: grammar ÷ schema", [ratio], target=Target("≤", 0.2)),
    ]
    for form, made in found.items():
        asked = [one["seconds"] for one in made.exchanges if one.get("seconds")]
        lines += [
            Line(f"{form}: output tokens of a step", [mean(tokens[form])]),
            Line(f"{form}: seconds of a step", asked, "s"),
        ]
        if form != "grammar":
            lines.append(Line(f"{form}: valid in the first turn", [100 * _valid(made)], "%"))
    if planned is not None:
        lines += [
            Line("Valid actions by grammar, in plans", [100 * _valid(planned)], "%", Target("≥", 100)),
            Line("In plans of four: seconds of a step", [_seconds(planned) / planned.steps], "s"),
        ]
    lines.append(Line("Success by grammar", [float(mean(found["grammar"].successes))]))
    return Section(NAME, TITLE, METHOD, lines)


def _valid(made: Run) -> float:
    asked = [one for one in made.exchanges if one.get("validity", "valid") != "planned"]
    return sum(one.get("validity", "valid") == "valid" for one in asked) / len(asked)


def _seconds(made: Run) -> float:
    return sum(float(one.get("seconds", 0)) for one in made.exchanges)
