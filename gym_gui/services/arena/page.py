"""The standings as one HTML file that can be mailed; what makes it safe is the comparison's."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from string import Template

from gym_gui.services.arena import report
from gym_gui.services.arena.film import Film, Reel, as_data
from gym_gui.services.arena.seeds import shown_seeds
from gym_gui.services.arena.standings import Measure, Standing, Standings
from gym_gui.services.charts.drawing import COLOURS
from gym_gui.services.charts.panels import DotPanel, Row
from gym_gui.services.compare import page as pages
from gym_gui.services.compare.origin import made_by
from gym_gui.services.compare.page import escaped, section, table
from gym_gui.services.compare.report import figure, interval
from gym_gui.services.compare.statistics import CONFIDENCE
from gym_gui.services.run_words import counted
from mosaic_protocol.png import data_url

_TEMPLATE = Path(pages.__file__).with_name("page.html")
_WIDE, _HALF = 1060.0, 520.0
_PERCENT = round(100 * CONFIDENCE)
TITLES = {
    Measure.RETURN: "Return of an episode",
    Measure.STEPS: "Steps of an episode",
    Measure.GAP: "Missing to the optimal return on the same seed",
}


def document(found: Standings, command: str, film: Film | None = None) -> str:
    """``film``: episodes of one seed, to be played side by side."""
    arena = found.arena
    style, script = pages.style_and_script()
    when = time.strftime("%Y-%m-%d %H:%M")
    players = "1 entry" if len(arena.entries) == 1 else f"{len(arena.entries)} entries"
    about = f"{TITLES[found.measure]}, seeds {shown_seeds(arena.seeds)}. Made {when} with MOSAIC."
    sections = [
        _standings(found),
        _film(found, film),
        _improvements(found),
        _notes(found),
        _seeds(found),
        _made(found, command, when),
    ]
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        policy=pages.policy_for(style, script, pictures=film is not None),
        style=style,
        script=script,
        title=escaped(f"{players} on the same {counted(len(arena.seeds), 'seed')} of {arena.env_id}"),
        about=escaped(about),
        finding=escaped(report.finding(found)),
        legend="Entries",
        toggles=_toggles(found),
        axes="",
        sections="\n".join(part for part in sections if part),
        data=pages.safe_json({"colours": COLOURS, "charts": {}, "film": as_data(film) if film else None}),
        footer=escaped(f"SHA-256 of the data: {data_hash(found)}"),
    )


def data_hash(found: Standings) -> str:
    """Over every episode that counts: equal for equal data, in whatever order entries took part."""
    whole = hashlib.sha256()
    for one in sorted(found.standings, key=lambda one: one.entry.identity):
        for seed, result in sorted(one.played.results.items()):
            told = [one.entry.identity, seed, repr(result.total), result.length]
            whole.update(json.dumps(told).encode())
    return whole.hexdigest()


def panel(found: Standings) -> DotPanel:
    """Every seed as a dot, and the IQM with its interval."""
    rows = []
    for number, one in enumerate(found.standings):
        if (iqm := one.estimates.get("iqm")) is None:
            continue
        hints = [f"seed {seed}: {figure(value)}" for seed, value in one.values.items()]
        rows.append(Row(one.entry.label, iqm.value, iqm.low, iqm.high, list(one.values.values()), hints, number))
    return DotPanel("", rows, TITLES[found.measure])


def _toggles(found: Standings) -> str:
    return "".join(
        f'<label><input type="checkbox" data-group="{number}" checked><span class="swatch c{number % COLOURS}"></span>'
        f"{escaped(one.entry.label)}</label>"
        for number, one in enumerate(found.standings)
    )


def _standings(found: Standings) -> str:
    heads = [("Entry", ""), ("What it is", ""), ("IQM", "n"), ("Mean", "n"), ("Steps", "n"), ("Time", "n")]
    heads += [("CPU", "n"), ("Price", "n"), ("Played", "n"), ("Verified", "n")]
    rows = [_row(one, len(found.arena.seeds)) for one in found.standings]
    hint = (
        f"Each dot is a seed, the upright line the IQM (mean of the middle half of the seeds), the bar its "
        f"{_PERCENT} % interval. Time and CPU are those of choosing the actions of one episode, without the "
        "environment's."
    )
    return section("How they did", hint, pages.picture(panel(found), _WIDE) + table(heads, rows, numbered=True))


def _row(one: Standing, total: int) -> list[str]:
    cost, count = one.cost, len(one.played.results)
    steps = report.MISSING if one.mean_steps is None else figure(one.mean_steps)
    times = [report.shown_seconds(cost.seconds), report.shown_seconds(cost.cpu_seconds)]
    price = report.shown_price(cost, is_person=one.is_person)
    estimates = [report.shown_estimate(one), report.shown_estimate(one, "mean")]
    whole = [f"{count} of {total}", f"{one.played.verified} of {count}"]
    return [one.entry.label, one.entry.detail, *estimates, steps, *times, price, *whole]


def _film(found: Standings, film: Film | None) -> str:
    """How each episode ended; the page's program plays them."""
    if film is None:
        return ""
    last = len(film.places) - 1
    controls = (
        '<div class="player"><button type="button" id="film-play">Play</button>'
        f'<input type="range" id="film-at" min="0" max="{last}" value="{last}" aria-label="Step">'
        '<output id="film-told" for="film-at"></output></div>'
    )
    hint = (
        f"Seed {film.seed}. All began in the same state; who is over stays at the end. Each picture comes from a "
        "simulation of the recorded actions."
    )
    order = {one.entry.key: number for number, one in enumerate(found.standings)}
    reels = "".join(_reel(found.standings[order[one.key]], one, order[one.key], film) for one in film.reels)
    body = f'{controls if film.pictures else ""}<div class="reels">{reels}</div>'
    return section("The same seed, side by side", hint, body)


def _reel(standing: Standing, reel: Reel, number: int, film: Film) -> str:
    name = escaped(standing.entry.label)
    ends = f"{figure(reel.totals[-1])} after {counted(reel.length, 'step')}"
    seen = f'<p class="gone">{escaped(reel.why)}</p>'
    if reel.pictures:
        picture = data_url(film.pictures[reel.pictures[-1]])
        seen = f'<img data-reel alt="What {name} sees" src="{picture}">'
    swatch = f'<span class="swatch c{number % COLOURS}"></span>'
    return (
        f'<figure data-series="{number}"><figcaption>{swatch}{name}</figcaption>'
        f'{seen}<p class="hint">{escaped(ends)}</p></figure>'
    )


def _improvements(found: Standings) -> str:
    if not found.improvements:
        return ""
    order = [one.entry.key for one in found.standings]
    labels = {one.entry.key: one.entry.label for one in found.standings}
    pairs = {two: one for two, one in found.improvements.items() if order.index(two[0]) < order.index(two[1])}
    heads = [("On the same seed", ""), ("does better than", ""), ("with probability", "n")]
    rows = [[labels[one], labels[other], interval(chance)] for (one, other), chance in pairs.items()]
    dots = [
        Row(f"{labels[one]} over {labels[other]}", chance.value, chance.low, chance.high, series=order.index(one))
        for (one, other), chance in pairs.items()
    ]
    shown = DotPanel("", dots, "Probability of improvement", x_range=(0.0, 1.0), mark=0.5)
    hint = "Paired: both began each episode with the same seed. A draw counts half; dashed: neither is better."
    numbers = f"<details><summary>The numbers of this figure</summary>{table(heads, rows)}</details>"
    return section("Probability of improvement", hint, pages.picture(shown, _WIDE) + numbers)


def _notes(found: Standings) -> str:
    return section("What weakens this comparison", "", pages.listed(found.notes)) if found.notes else ""


def _seeds(found: Standings) -> str:
    heads = [("Seed", "n"), *((one.entry.label, "n") for one in found.standings)]
    rows = []
    for seed in found.arena.seeds:
        results = [one.played.results.get(seed) for one in found.standings]
        if any(result is not None for result in results):
            cells = ["–" if one is None else f"{figure(one.total)} in {one.length:,}" for one in results]
            rows.append([str(seed), *cells])
    body = f"<details><summary>Return and steps of every episode</summary>{table(heads, rows)}</details>"
    return section("Every seed", "", body)


def _made(found: Standings, command: str, when: str) -> str:
    rules = found.arena.rules
    method = (
        "Every entry played the same game with the same seeds of the environment, each policy with the action it "
        "prefers. Each step was recorded; each episode was then simulated again from its seed with the recorded "
        "actions, and every observation, reward and end compared. Intervals: percentiles of a bootstrap over seeds "
        f"with {found.samples:,} resamples. IQM is that of Agarwal et al., Deep Reinforcement Learning at the Edge of "
        "the Statistical Precipice, NeurIPS 2021; the probability of improvement is paired by seed."
    )
    limit = rules.get("max_episode_steps")
    facts = [("environment", found.arena.env_id), ("made with", json.dumps(rules.get("kwargs") or {}))]
    facts += [("step limit", "none" if limit is None else str(limit)), *made_by(), ("made", when)]
    items = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in facts)
    body = f"<p>{escaped(method)}</p><pre><code>{escaped(command)}</code></pre><dl>{items}</dl>"
    return section("How this was made", "", body)
