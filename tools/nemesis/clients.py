"""The clients of a campaign. Each is a thread with a seed of its own that does one thing after the other, records it,
and connects again after a failure; connecting starts a daemon where none runs, as for every user."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ulid import ULID

from gym_gui.cli.errors import ExitCode
from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.proto import trainer_pb2 as pb
from tools.nemesis.history import Operation
from tools.nemesis.ledger import Ledger, Submission

MOST_UNFINISHED = 14
_PATIENCE, _TIMEOUT = 4.0, 10.0
_PAGE = 40
_COMMAND_SECONDS = 180.0
"""Longer than all the patience of a command line together."""


class Client(ABC, threading.Thread):
    """Does what its dice say until the campaign stops it."""

    def __init__(self, name: str, ledger: Ledger, seed: int, pause: float) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger, self.history = ledger, ledger.history
        self.dice = random.Random(f"{name} {seed}")
        self._pause, self._stopping = pause, threading.Event()

    @abstractmethod
    def actions(self) -> dict[Callable[[], None], int]:
        """What it can do and how often it does each."""

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        choices = self.actions()
        while not self._stopping.wait(self.dice.uniform(0.0, 2 * self._pause)):
            self.dice.choices(list(choices), weights=list(choices.values()))[0]()

    def any_run(self) -> str:
        """A run that is most likely still alive."""
        known = [one for one in self.ledger.acknowledged() if not one.purging]
        alive = [one for one in known if one.over_at == float("inf")]
        if alive and self.dice.random() < 0.9:
            known = alive
        return self.dice.choice(known).run_id if known else ""

    def own(self, wanted: Callable[[Submission], bool]) -> Submission | None:
        mine = [one for one in self.ledger.submissions if one.owner == self.name and wanted(one)]
        return self.dice.choice(mine) if mine else None


class ApiClient(Client):
    """The Python client, as scripts and the cockpit use it."""

    _client: TrainerClient | None = None

    def actions(self) -> dict[Callable[[], None], int]:
        return {
            self.submit: 40,
            self.submit_again: 8,
            self.cancel: 8,
            self.pause: 8,
            self.resume: 10,
            self.get: 12,
            self.list_runs: 6,
            self.delete: 4,
            self.restore: 3,
            self.purge: 4,
        }

    def run(self) -> None:
        super().run()
        self.disconnect()

    def connected(self) -> TrainerClient:
        if self._client is None:
            paths = self.ledger.paths
            self._client = TrainerClient.connect(paths, patience=_PATIENCE, timeout=_TIMEOUT)
        return self._client

    def disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def attempt(self, action: str, call: Callable[[], Any], run: str = "", **facts: Any) -> tuple[Operation, Any]:
        """Record one call; its operation and its answer, None without one."""
        answer = None
        with self.history.operation(self.name, action, run, **facts) as one:
            answer = call()
        if one.result == "unknown":
            self.disconnect()
        if isinstance(answer, pb.Run):
            self.ledger.observe(answer, one.began)
        return one, answer

    def submit(self) -> None:
        if self.ledger.unfinished() < MOST_UNFINISHED:
            self.ask_for(self.ledger.begin(self.name, str(ULID())))

    def submit_again(self) -> None:
        """The same request once more: a client that had no answer does so, and one that had may."""
        if one := self.own(lambda one: bool(one.request) and not one.refused and not one.purging):
            self.ask_for(one)

    def ask_for(self, one: Submission) -> None:
        known = bool(one.run_id)
        call = lambda: self.connected().submit(one.plan.config, one.request)  # noqa: E731
        done, answer = self.attempt("submit", call, one.run_id, request=one.request, name=one.plan.name)
        if answer is not None:
            self.ledger.acknowledge(one, answer.run.run_id)
            self.ledger.observe(answer.run, done.began)
            if known and not answer.already_known:
                self.history.broken(f"request {one.request} was acknowledged and made a run again")
        elif done.result == "fail" and not known:
            one.refused = True

    def cancel(self) -> None:
        if run := self.any_run():
            reason = f"{self.name} wants it"
            self.attempt("cancel", lambda: self.connected().cancel(run, reason), run, reason=reason)

    def pause(self) -> None:
        if run := self.any_run():
            self.attempt("pause", lambda: self.connected().pause(run), run)

    def resume(self) -> None:
        if run := self.any_run():
            self.attempt("resume", lambda: self.connected().resume(run), run)

    def get(self) -> None:
        if run := self.any_run():
            self.attempt("get", lambda: self.connected().run(run), run)

    def list_runs(self) -> None:
        one, listed = self.attempt("list", lambda: all_runs(self.connected()))
        if listed is not None:
            self.ledger.check_listing([run.run_id for run in listed], one.began)
            for run in listed:
                self.ledger.observe(run, one.began)

    def delete(self) -> None:
        self._move("delete", lambda run: self.connected().delete(run), into_trash=True)

    def restore(self) -> None:
        self._move("restore", lambda run: self.connected().restore(run), into_trash=False)

    def _move(self, action: str, call: Callable[[str], Any], *, into_trash: bool) -> None:
        movable = self.own(lambda one: one.over_at < float("inf") and not one.purging and one.in_trash != into_trash)
        if movable is None:
            return
        done, _ = self.attempt(action, lambda: call(movable.run_id), movable.run_id)
        if done.result == "unknown":
            movable.in_trash = None
        elif done.result == "ok" and movable.in_trash is not None:
            movable.in_trash = into_trash

    def purge(self) -> None:
        if one := self.own(lambda one: one.over_at < float("inf") and not one.purging):
            one.purging = True
            done, _ = self.attempt("purge", lambda: self.connected().delete(one.run_id, purge=True), one.run_id)
            one.purged = done.result == "ok"


def all_runs(client: TrainerClient) -> list[pb.Run]:
    """Every run, page by page, the trash as well."""
    runs, token = list[pb.Run](), ""
    while True:
        page = client.runs(size=_PAGE, token=token, include_deleted=True)
        runs += page.runs
        token = page.next_page_token
        if not token:
            return runs


class CommandClient(Client):
    """The ``mosaic`` command, a process for each word. Its submits carry no request id: an exit without an answer may
    leave one run, never two."""

    def actions(self) -> dict[Callable[[], None], int]:
        return {self.submit: 5, self.cancel: 2, self.list_runs: 2}

    def mosaic(self, one: Operation, *words: str, given: str = "") -> Any:
        """Run one command line and judge its exit code; what it printed, None without an answer."""
        command = [sys.executable, "-m", "gym_gui.cli", *words, "--json"]
        try:
            ended = subprocess.run(
                command, input=given, capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS
            )
        except subprocess.TimeoutExpired:
            one.result = "unknown"
            return self.history.broken(f"mosaic {words[0]} hangs")
        one.result = _RESULTS.get(ended.returncode, "unknown")
        one.answer = ended.stderr.strip()[-500:]
        if "should not have happened" in ended.stderr or "Traceback" in ended.stderr:
            self.history.broken(f"mosaic {words[0]}: {one.answer}")
        return json.loads(ended.stdout) if one.result == "ok" else None

    def submit(self) -> None:
        if self.ledger.unfinished() >= MOST_UNFINISHED:
            return
        wanted = self.ledger.begin(self.name, "")
        with self.history.operation(self.name, "submit", name=wanted.plan.name) as one:
            config = json.dumps(wanted.plan.config)
            told = self.mosaic(one, "submit", "-", "--detach", "--no-preflight", given=config)
            if told is not None:
                one.run = told["run_id"]
                self.ledger.acknowledge(wanted, one.run)

    def cancel(self) -> None:
        if run := self.any_run():
            reason = f"{self.name} wants it"
            with self.history.operation(self.name, "cancel", run, reason=reason) as one:
                self.mosaic(one, "cancel", run, "--no-wait", "--reason", reason)

    def list_runs(self) -> None:
        with self.history.operation(self.name, "list") as one:
            self.mosaic(one, "runs")


_RESULTS: dict[int, str] = {ExitCode.OK: "ok", ExitCode.REFUSED: "fail", ExitCode.NO_SUCH_RUN: "fail"}
