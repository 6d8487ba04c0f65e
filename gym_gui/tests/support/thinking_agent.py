"""A process that thinks on a live channel: agents who learn their way over a frozen lake, as a BDI run would show them.

    python -m gym_gui.tests.support.thinking_agent RUN_DIR [--agents NAME ...] [--fast] [--table]

It tells its minds whenever somebody comes or says something, with ``--fast`` five times a second while it learns, and
ends when its stdin is closed. A goal that is no term of AgentSpeak is refused.
"""

from __future__ import annotations

import argparse
import queue
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Command, Hello, State, Tell
from mosaic_protocol.mind import AgentMind, Belief, Considered, Intention, Mind, PlanSpan, Said, ValueTable
from mosaic_worker.live.server import LiveServer

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
ACTIONS = ("left", "down", "right", "up")
_TERM = re.compile(r"[a-z]\w*(\([\w ,.\"-]*\))?")
_ENDS = (5, 7, 11, 12, 15)
_PLANS = {
    "reuse": ("policy(cached)", "policy(cached) is not believed"),
    "exploit": ("confidence(C) & C >= 0.6", "confidence(C) & C >= 0.6 does not hold for C = {confidence:.2f}"),
    "explore": ("", "listed after exploit, which applied first"),
}


class Agent:
    """Learns by Q-learning, one episode an intention."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.chance = name, random.Random(seed)
        self.values = [[0.0] * len(ACTIONS) for _ in range(16)]
        self.visits = [0] * 16
        self.episode = self.state = 0
        self.spans: list[PlanSpan] = []
        self.told: list[Belief] = []
        self.messages: list[Said] = []
        self.before: list[Belief] = []

    @property
    def confidence(self) -> float:
        sure = [max(row) for state, row in enumerate(self.values) if state not in _ENDS]
        return min(0.99, sum(sure) / len(sure))

    @property
    def plan(self) -> str:
        return "exploit" if self.confidence >= 0.6 else "explore"

    def play(self) -> None:
        plan, self.state = self.plan, 0
        for _ in range(60):
            row = self.values[self.state]
            greedy = plan == "exploit" and self.chance.random() > 0.1 and max(row) > 0
            action = row.index(max(row)) if greedy else self.chance.randrange(4)
            following = _moved(self.state, action)
            reward = 1.0 if following == 15 else 0.0
            future = 0.0 if following in _ENDS else 0.95 * max(self.values[following])
            row[action] += 0.5 * (reward + future - row[action])
            self.visits[self.state] += 1
            if following in _ENDS:
                break
            self.state = following
        last = self.spans[-1] if self.spans else None
        if last is not None and last.plan == plan:
            self.spans[-1] = PlanSpan(last.first_episode, plan, last.episodes + 1)
        else:
            self.spans.append(PlanSpan(self.episode, plan, 1))
        self.episode += 1

    def hear(self, told: Tell) -> None:
        self.messages.append(Said("in", "person", "achieve" if told.kind == "goal" else "tell", told.text, time.time()))
        if told.kind == "belief":
            self.told.append(_belief(told.text))

    def seen(self, *, as_table: bool) -> AgentMind:
        beliefs = [
            Belief("at", ({"f": "cell", "a": [self.state]},), "percept"),
            Belief("confidence", (round(self.confidence, 3),), "learned"),
            Belief("episodes", (self.episode,), "self"),
            Belief("hole", (5,), "scout"),
            Belief("strategy", ({"f": self.plan},), "self"),
            *self.told,
        ]
        now, before = {str(one): one for one in beliefs}, {str(one): one for one in self.before}
        mind = Mind(
            plan=self.plan,
            goal="episode",
            confidence=self.confidence,
            beliefs=tuple(beliefs),
            added=tuple(one for key, one in now.items() if key not in before) if before else (),
            removed=tuple(one for key, one in before.items() if key not in now),
            goals=("learn", "episode"),
            intentions=(
                Intention("learn", "keep_learning", "!!learn", True),
                Intention("episode", self.plan, f".run_episode({self.plan})"),
            ),
            considered=tuple(self._considered()),
            messages=tuple(self.messages[-50:]),
            values=tuple(self.values[self.state]),
        )
        self.before = beliefs
        table = ValueTable(
            actions=ACTIONS,
            values=tuple(map(tuple, self.values)),
            visits=tuple(self.visits),
            cells=() if as_table else LAKE,
            terminal=_ENDS,
            state=self.state,
        )
        strategy = {"epsilon": 0.1 if self.plan == "exploit" else 1.0, "alpha": 0.5, "gamma": 0.95}
        return AgentMind(self.name, self.episode, mind, tuple(self.spans[-200:]), strategy, table)

    def _considered(self) -> Iterator[Considered]:
        for plan, (condition, why) in _PLANS.items():
            chosen = plan == self.plan
            yield Considered(plan, condition, "" if chosen else why.format(confidence=self.confidence))


def _moved(state: int, action: int) -> int:
    row, column = divmod(state, 4)
    across, down = ((-1, 0), (0, 1), (1, 0), (0, -1))[action]
    return min(max(row + down, 0), 3) * 4 + min(max(column + across, 0), 3)


def _belief(text: str) -> Belief:
    name, _, rest = text.rstrip(")").partition("(")
    args = tuple(int(one) if one.strip().isdigit() else {"f": one.strip()} for one in rest.split(",") if one.strip())
    return Belief(name, args, "person")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--agents", nargs="+", default=["learner"])
    parser.add_argument("--episodes", type=int, default=0, help="learned before anybody comes")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--table", action="store_true", help="tell of no grid")
    options = parser.parse_args()
    agents = [Agent(name, seed) for seed, name in enumerate(options.agents)]
    for agent in agents:
        for _ in range(options.episodes):
            agent.play()
    inbox: queue.SimpleQueue[Command | str | None] = queue.SimpleQueue()
    hello = Hello("FrozenLake-v1", "", KeyMap(), False, 5.0, is_training=True, agents=tuple(options.agents))
    server = LiveServer(options.folder, hello, inbox.put, lambda: "")
    threading.Thread(target=_await_end, args=(inbox,), daemon=True).start()
    print("listens", flush=True)
    while (command := _next(inbox, 0.2 if options.fast else None)) != "end":
        if isinstance(command, Tell):
            _told(server, agents, command)
        for agent in agents:
            for _ in range(40 if command == "on" else 1):
                agent.play()
        minds = tuple(agent.seen(as_table=options.table) for agent in agents)
        server.publish(State(steps=agents[0].episode * 8, episode=agents[0].episode, mean=0.46, mind=minds))
    server.close()


def _await_end(inbox: queue.SimpleQueue[Command | str | None]) -> None:
    sys.stdin.read()
    inbox.put("end")


def _next(inbox: queue.SimpleQueue[Command | str | None], patience: float | None) -> Command | str | None:
    try:
        return inbox.get(timeout=patience)
    except queue.Empty:
        return "on"


def _told(server: LiveServer, agents: list[Agent], told: Tell) -> None:
    if not _TERM.fullmatch(told.text):
        server.refuse(f"{told.text!r} is no term: write a name in lower case, such as rest(5)\n{told.text}\n   ^")
        return
    for agent in agents:
        if told.agent in ("", agent.name):
            agent.hear(told)


@contextmanager
def thinking(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Have such a process think in the folder of a run; it has ended afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", __spec__.name, str(folder), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "listens\n"
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close() if process.stdout is not None else None


if __name__ == "__main__":
    main()
