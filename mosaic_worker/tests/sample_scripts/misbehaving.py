"""A script that misbehaves as ``--how`` says: what users' scripts do, sooner or later."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from mosaic_worker.tests.sample_scripts.link import Link

SLEEPER = [sys.executable, "-c", "import time; time.sleep(3600)"]


@dataclass
class Args:
    how: str = "fail"
    """One of the names in WAYS."""
    seed: int = 1
    """Read and forgotten."""


def note_pids(link: Link, *pids: int) -> None:
    """Leave the pids for the test to look at, in one step."""
    draft = link.run_dir / ".pids"
    draft.write_text(json.dumps(pids))
    draft.rename(link.run_dir / "pids.json")


def sleep_for_good() -> NoReturn:
    while True:
        time.sleep(3600)


def fail_at_once() -> None:
    raise ImportError("no module named gymnastics")


def exit_without_a_word() -> None:
    print("nothing to say to a supervisor")


def fail() -> None:
    Link().wait_for_go()
    raise ValueError("the reward is not a number")


def exit_with_status() -> None:
    Link().wait_for_go()
    sys.exit(7)


def die_of(number: signal.Signals) -> None:
    link = Link()
    link.wait_for_go()
    link.save_checkpoint(3)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), number)


def spam() -> None:
    """More output than a pipe holds, and more messages than one read takes."""
    link = Link()
    link.wait_for_go()
    for step in range(1, 2001):
        print("x" * 100, flush=False)
        link.say(at="progress", step=step, padding="y" * 100)
    link.say(at="done", step=2000)


def talk_gibberish() -> None:
    link = Link()
    link.send(b"this is not JSON\n")
    link.send(b"[1, 2]\n\xff\xfe\n")
    link.send(b'{"at": "re')
    time.sleep(0.2)  # so that the halves of the word arrive apart
    link.send(b'ady"}\n')
    while link.hear() != "go":
        pass
    link.say(at="a word of the future", step="many")
    link.say(at="done", step=5)


def talk_and_leave() -> None:
    """Gone before anybody listened; what it said takes more than one read."""
    link = Link()
    for _ in range(3):
        link.say(at="progress", padding="y" * 30_000)
    link.say(at="stopped", step=9)


def listen_no_more() -> None:
    """Deaf to the link, and with no idea of signals: what most scripts are that people write."""
    link = Link()
    note_pids(link, os.getpid())
    link.wait_for_go()
    sleep_for_good()


def hang() -> None:
    """Deaf to the stop on the link and to SIGTERM."""
    link = Link()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note_pids(link, os.getpid())
    link.wait_for_go()
    sleep_for_good()


def leave_session() -> None:
    """Deaf, and no longer in the supervisor's session."""
    link = Link()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    note_pids(link, os.getpid())
    link.wait_for_go()
    sleep_for_good()


def have_grandchildren() -> None:
    """One plain, one in a session of its own, one forked twice without a parent; then wait for the stop."""
    link = Link()
    plain = subprocess.Popen(SLEEPER)
    apart = subprocess.Popen(SLEEPER, start_new_session=True)
    note_pids(link, os.getpid(), plain.pid, apart.pid, fork_twice())
    link.wait_for_go()
    while link.hear() != "stop":
        pass
    link.say(at="stopped", step=0)
    # The supervisor cleans them up; a warning of a destructor would only hide the matter.
    plain.returncode = apart.returncode = 0


def fork_twice() -> int:
    """A process whose parent is gone, as daemons make themselves; its pid."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if (grandchild := os.fork()) == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sleep_for_good()
        os.write(write, str(grandchild).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(read, 32))


WAYS = {
    "fail_at_once": fail_at_once,
    "exit_without_a_word": exit_without_a_word,
    "fail": fail,
    "exit_with_status": exit_with_status,
    "die_of_kill": lambda: die_of(signal.SIGKILL),
    "die_of_segv": lambda: die_of(signal.SIGSEGV),
    "spam": spam,
    "talk_gibberish": talk_gibberish,
    "talk_and_leave": talk_and_leave,
    "listen_no_more": listen_no_more,
    "hang": hang,
    "leave_session": leave_session,
    "have_grandchildren": have_grandchildren,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=sorted(WAYS), required=True)
    parser.add_argument("--seed", type=int)
    WAYS[parser.parse_args().how]()
