"""Population-based training, decided purely: who goes on by itself at a rung, and who as a copy of a better one.

Members of a population are the trials of a sweep. Each stops with a checkpoint at each rung and waits for the others.
When all are there, the worst of them take over the checkpoints of the best and go on from those, with settings near
theirs. Everything that is drawn is drawn from the sweep's seed, the rung and the member, so a decision that a crash
undid is made again with the same result, however fast each member was.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from msgspec.structs import replace

from gym_gui.services.sweeps.model import SeedPhase, SeedRun, Sweep, SweepSpec, Trial, TrialState, Turn
from gym_gui.services.sweeps.space import Dimension, Value

LARGEST_SEED = 2**31 - 1


def first_seed(spec: SweepSpec, number: int) -> SeedRun:
    """The seed that a trial begins with. Each member has one of its own: members that share one share its luck."""
    seed = spec.seeds[0] + number if spec.is_population else spec.seeds[0]
    return SeedRun(seed % (LARGEST_SEED + 1))


def turned(sweep: Sweep) -> Sweep:
    """The sweep after every rung that a whole population has come to."""
    while generation := _all_at_a_rung(sweep):
        sweep = _judged(sweep, generation)
    return sweep


def next_to_train(sweep: Sweep) -> Trial | None:
    """A member that waits for a slot and for nothing else; the one that is furthest behind first."""
    ready = [trial for trial in _living(sweep) if _rests(trial) and not trial.waits_for_turn]
    return min(ready, key=lambda one: (len(one.turns), one.number), default=None)


def is_at_rung(sweep: Sweep, trial: Trial) -> bool:
    """Whether a trial is a member that came to a rung and waits there for the others."""
    return sweep.spec.is_population and trial.waits_for_turn


def wanted_again(trial: Trial) -> Trial:
    return replace(trial, seeds=(replace(trial.seeds[0], phase=SeedPhase.WANTED),))


def _living(sweep: Sweep) -> list[Trial]:
    """Members that are still training: one that failed or reached the end takes no part."""
    running = (trial for trial in sweep.trials if trial.state is TrialState.RUNNING)
    return [trial for trial in running if not trial.seeds[0].trained]


def _rests(trial: Trial) -> bool:
    return trial.seeds[0].phase is SeedPhase.IDLE


def _all_at_a_rung(sweep: Sweep) -> list[Trial]:
    """The members that are to be judged now: those with the fewest turns, once all of them stand at the next rung.
    Others are ahead: they were members before the sweep got more budget."""
    if len(sweep.trials) < sweep.budget and not sweep.exhausted:
        return []
    living = _living(sweep)
    fewest = min((len(trial.turns) for trial in living), default=0)
    generation = [trial for trial in living if len(trial.turns) == fewest]
    return generation if all(_rests(trial) and trial.waits_for_turn for trial in generation) else []


def _judged(sweep: Sweep, generation: list[Trial]) -> Sweep:
    sources = _sources(sweep.spec, generation)
    trials = list(sweep.trials)
    for trial in generation:
        source = sweep.trials[sources.get(trial.number, trial.number)]
        step = trial.rungs[len(trial.turns)][0]
        turn = Turn(step, source.number, trial.params, len(trial.seeds[0].runs), len(source.seeds[0].runs))
        params = trial.params
        if source is not trial:
            params = explored(sweep.spec, source.params, _dice(sweep.spec, "settings", trial))
        trials[trial.number] = replace(trial, turns=(*trial.turns, turn), params=params)
    return replace(sweep, trials=tuple(trials))


def _sources(spec: SweepSpec, generation: list[Trial]) -> dict[int, int]:
    """For each member that is replaced the one that it becomes a copy of. One without a number at the rung is neither
    replaced nor copied."""
    place, sign = len(generation[0].turns), spec.sign()
    known = [(sign * value, trial) for trial in generation if (value := trial.rungs[place][1]) is not None]
    known.sort(key=lambda one: (-one[0], one[1].number))
    count = min(max(1, math.floor(len(known) * spec.quantile)), len(known) // 2)
    best = known[:count]
    found = {}
    for value, trial in known[len(known) - count :]:
        chosen, source = _dice(spec, "source", trial).choice(best)
        if chosen > value:
            found[trial.number] = source.number
    return found


def _dice(spec: SweepSpec, what: str, trial: Trial) -> random.Random:
    return random.Random(f"{spec.sampler_seed}/{what}/{len(trial.turns)}/{trial.number}")


# ---- settings of a copy ------------------------------------------------------------------------------------------


def explored(spec: SweepSpec, params: Mapping[str, Value], dice: random.Random) -> dict[str, Value]:
    """Settings near others, within the space. Each is drawn from its whole range with the probability ``resample``;
    otherwise a number grows or shrinks by ``perturb``, and of some values the one before or after is taken."""
    return {
        name: _drawn(one, dice) if dice.random() < spec.resample else _neighbour(one, params[name], spec.perturb, dice)
        for name, one in spec.space.items()
    }


def _drawn(one: Dimension, dice: random.Random) -> Value:
    if one.kind == "choice":
        return dice.choice(one.choices)
    if one.log:
        return _fitted(one, math.exp(dice.uniform(math.log(one.low), math.log(one.high))))
    return _fitted(one, dice.uniform(one.low, one.high))


def _neighbour(one: Dimension, value: Value, factor: float, dice: random.Random) -> Value:
    upwards = dice.random() < 0.5
    if one.kind == "choice":
        place = one.choices.index(value) + (1 if upwards else -1)
        return one.choices[min(max(place, 0), len(one.choices) - 1)]
    number = float(value) if isinstance(value, int | float) else one.low
    moved = _fitted(one, number * factor if upwards else number / factor)
    grain = one.step or (1.0 if one.kind == "int" else 0.0)
    if moved == value and grain:  # the next whole number is further away than the factor
        return _fitted(one, number + grain if upwards else number - grain)
    return moved


def _fitted(one: Dimension, number: float) -> Value:
    """The nearest number that a range has."""
    number = min(max(number, one.low), one.high)
    step = one.step or (1.0 if one.kind == "int" else None)
    if step is not None:
        most = math.floor((one.high - one.low) / step + 1e-9)
        number = one.low + min(round((number - one.low) / step), most) * step
    return int(number) if one.kind == "int" else number
