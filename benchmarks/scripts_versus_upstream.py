"""Our scripts against upstream CleanRL's: how many steps each makes in a second, at the same hyper-parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.bare_scripts import BareScript
from benchmarks.daemon_overhead import Speed
from benchmarks.machine import ROOT
from benchmarks.report import Line, Section, Target, chosen, interleaved, ratios
from benchmarks.upstream_environment import UpstreamEnvironment, UpstreamEnvironmentError, ensure

NAME = "scripts_versus_upstream"
TITLE = "Our scripts, against upstream CleanRL's"
METHOD = """\
Ours in `cleanrl_worker/cleanrl` and the unmodified ones of the package cleanrl 1.2.0 in the managed environment
`cleanrl_upstream`, with the same hyper-parameters (the defaults unless a flag is named), 1 torch thread, run bare and
interleaved as ABBA; a ratio belongs to one pair. Speed is the steps between the first and the last point of
`charts/SPS` in the TensorBoard file by the CPU time of the process between them (and by the time that passed, for
information), so starting up counts for neither. For upstream's Atari script the games are registered with gym 0.23 by
the harness's adapter, since today's ALE does not do so."""


@dataclass(frozen=True)
class Match:
    """One algorithm on one environment. `flags` go to both, with upstream's spelling of switches."""

    algo: str
    env_id: str
    steps: int
    target: float
    flags: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.algo}, {self.env_id}"

    def words(self) -> list[str]:
        return ["--env-id", self.env_id, "--seed", "1", "--total-timesteps", str(self.steps), *self.flags]


_EARLY = ("--learning-starts", "1000")

MATCHES = (
    Match("ppo", "CartPole-v1", 100_000, 2.5),
    Match("dqn", "CartPole-v1", 40_000, 2.0, ("--learning-starts", "2000")),
    Match("c51", "CartPole-v1", 30_000, 1.5, ("--learning-starts", "2000")),
    Match("ppo_continuous_action", "Pendulum-v1", 40_000, 1.5),
    Match("sac_continuous_action", "Pendulum-v1", 4_000, 1.3, _EARLY),
    Match("td3_continuous_action", "Pendulum-v1", 6_000, 1.3, _EARLY),
    Match("ppo_atari", "PongNoFrameskip-v4", 6_144, 1.5),
)
TITLES = tuple(match.title for match in MATCHES)


def run(*, quick: bool = False, lines: Sequence[str] = ()) -> Section:
    """One section of the benchmark page, of all scripts or those whose title has one of the words in `lines`.

    `quick` makes one pair of each and leaves Atari out.
    """
    try:
        upstream = ensure()
    except UpstreamEnvironmentError as error:
        return Section(NAME, TITLE, METHOD, problem=str(error))
    found: list[Line] = []
    for match in chosen(MATCHES[:-1] if quick else MATCHES, lines, lambda match: match.title):
        found += lines_of(match, measured(match, upstream, pairs=1 if quick else 5))
    return Section(NAME, TITLE, METHOD, found)


def measured(match: Match, upstream: UpstreamEnvironment, pairs: int) -> list[tuple[Speed, Speed]]:
    ours = BareScript.ours(match.algo)
    theirs = BareScript(upstream.python, upstream.script(match.algo), upstream.import_path(match.algo))
    if "atari" in match.algo:
        theirs = replace(theirs, import_path=os.pathsep.join([theirs.import_path, str(ROOT)]), prepared=True)
    return interleaved(pairs, partial(ours.speed, match.words()), partial(theirs.speed, match.words()))


def lines_of(match: Match, pairs: Sequence[tuple[Speed, Speed]]) -> list[Line]:
    by_cpu = ratios([(ours.per_cpu_second, theirs.per_cpu_second) for ours, theirs in pairs])
    by_time = ratios([(ours.per_second, theirs.per_second) for ours, theirs in pairs])
    return [
        Line(f"{match.title}: steps per CPU second, ours ÷ upstream", by_cpu, target=Target("≥", match.target)),
        Line(f"{match.title}: steps per second, ours ÷ upstream", by_time),
        Line(f"{match.title}: steps per second, ours", [ours.per_second for ours, _ in pairs], "/s"),
        Line(f"{match.title}: steps per second, upstream", [theirs.per_second for _, theirs in pairs], "/s"),
    ]
