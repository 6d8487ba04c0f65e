"""How far ppo_atari comes with Pong in a million steps on a CPU."""

from __future__ import annotations

from statistics import mean

from benchmarks.bare_scripts import BareScript
from benchmarks.report import Line, Section, Target
from benchmarks.tensorboard_points import logged_points

NAME = "learning_pong"
TITLE = "ppo_atari on Pong"
METHOD = """\
`ppo_atari` bare, PongNoFrameskip-v4, default hyper-parameters, one seed, 1,000,000 steps (100,000 in a quick run): the
mean return of the first 50 episodes, of the last 50, and of the best 50 in a row. A game lost 0 to 21 counts -21."""

TAG = "charts/episodic_return"
STEPS, QUICK_STEPS = 1_000_000, 100_000
EPISODES = 50


def run(*, quick: bool = False) -> Section:
    steps = QUICK_STEPS if quick else STEPS
    script = BareScript.ours("ppo_atari")
    with script.started(["--env-id", "PongNoFrameskip-v4", "--seed", "1", "--total-timesteps", str(steps)]) as (
        child,
        folder,
    ):
        script.require_success(child)
        points = logged_points(folder, TAG)
    return Section(NAME, TITLE, METHOD, lines_of([point.value for point in points], points[-1].step))


def lines_of(returns: list[float], steps: int) -> list[Line]:
    windows = [mean(returns[begin : begin + EPISODES]) for begin in range(max(1, len(returns) - EPISODES + 1))]
    return [
        Line(f"Return of the first {EPISODES} episodes", [windows[0]]),
        Line(f"Return of the last {EPISODES} episodes, at {steps:,} steps", [windows[-1]]),
        Line(f"Return of the best {EPISODES} episodes in a row", [max(windows)]),
        Line("Rise from the first to the last", [windows[-1] - windows[0]], target=Target("≥", 2)),
        Line("Episodes", [len(returns)]),
    ]
