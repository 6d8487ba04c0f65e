"""Runs in processes of their own against a real server: valid answers, exact sums, kill -9, budgets, refusals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_worker.client.ledger import read_ledger, tokens_of
from llm_worker.tests.scripted_server import KEY, Asked, Script, in_form, serving
from mosaic_protocol.checkpoint_manifest import list_checkpoints, read_manifest
from mosaic_protocol.dialogue import DIALOGUE
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording

ROOT = Path(__file__).resolve().parents[2]
HANG_SECONDS = 240.0


class Place:
    """A folder in which runs are started by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, url: str, algo: str = "direct", **config: Any) -> subprocess.Popen[str]:
        params = {"model": "m", "base_url": url, "is_slippery": False, "episodes": 2, **config.pop("params", {})}
        file = self.folder / f"config-{len(list(self.folder.iterdir()))}.json"
        file.write_text(json.dumps({"algo": algo, "env_id": "FrozenLake-v1", "seed": 3, **config, "params": params}))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MOSAIC_TENSORBOARD": "0", "OPENAI_API_KEY": KEY}
        return subprocess.Popen(
            [sys.executable, "-m", "llm_worker.cli", "--config", str(file)],
            cwd=self.folder,
            env={**environment, "MOSAIC_HOME": str(self.folder / "home")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        try:
            out, err = process.communicate(timeout=HANG_SECONDS)
        finally:
            process.kill()
        return process.returncode, out, err

    def run(self, url: str, algo: str = "direct", **config: Any) -> tuple[int, str, str]:
        return self.ended(self.start(url, algo, **config))

    @property
    def newest(self) -> Path:
        return max((self.folder / "runs").iterdir(), key=lambda one: one.stat().st_mtime_ns)

    def recorded(self) -> list[dict[str, Any]]:
        """What the newest run was asked and answered, step by step."""
        chunks = Recording(self.newest / "outbox", {"kind": "run"}).chunks()
        return [one[DIALOGUE] for episode in read_episodes(chunks) for _, one in sorted(episode.extras.items())]

    def everything(self) -> bytes:
        return b"".join(file.read_bytes() for file in self.folder.rglob("*") if file.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def until(what: str, probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not probe():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def test_an_optimal_model_succeeds_with_exact_sums_and_its_key_is_nowhere(place: Place) -> None:
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        status, out, err = place.run(url, params={"cache": False})
    assert status == 0, err
    assert "return 1.0" in out and "Answers come by grammar" in out
    assert len(script.questions) == 12  # two episodes of six steps, a call for each
    sums = tokens_of(place.newest / "llm" / "ledger.jsonl")
    words = sum(len(str(one["content"]).split()) for asked in script.asked for one in asked.body["messages"])
    assert (sums["calls"], sums["prompt"], sums["completion"]) == (13, words, 13)
    assert KEY.encode() not in place.everything()
    assert KEY not in out + err


def test_after_kill_nine_a_run_goes_on_as_if_nothing_had_happened(place: Place) -> None:
    at = 7
    script = Script(keeps=("grammar",), faults={at: {"hang": True}})
    with serving(script) as url:
        first = place.start(url, params={"cache": False})
        try:
            until("the call in flight", lambda: len(script.asked) > at)
            os.kill(first.pid, signal.SIGKILL)
        finally:
            first.communicate()
        before, asked_before = place.newest, len(script.asked)
        checkpoint = list_checkpoints(before / "checkpoints")[-1]
        status, out, err = place.run(
            url, params={"cache": False}, start={"mode": "resume", "checkpoint": str(checkpoint)}
        )
        assert status == 0, err
        assert "Unsettled" in out
        resumed = [one.body for one in script.asked[asked_before:]]
    alone = Script(keeps=("grammar",))
    with serving(alone) as url:
        assert place.run(url, params={"cache": False})[0] == 0
    settled = [one.body for one in script.asked[:at]]
    assert settled + resumed == [one.body for one in alone.asked]  # one request more in all: the one in flight
    sources = [
        line.source for line in read_ledger(before.parent / _resumed(before) / "llm" / "ledger.jsonl") if line.source
    ]
    assert sources.count("ledger") == at - 1  # the probe stands in the checkpoint


def _resumed(before: Path) -> str:
    runs = sorted(before.parent.iterdir(), key=lambda one: one.stat().st_ctime_ns)
    return runs[1].name


def test_a_second_run_takes_its_answers_from_the_cache(place: Place) -> None:
    script = Script(keeps=("schema",))
    with serving(script) as url:
        assert place.run(url)[0] == 0
        asked = len(script.asked)
        assert asked == 3 + 6  # three rungs were tried; the second episode asks what the first one did
        assert place.run(url)[0] == 0
        assert len(script.asked) == asked


def test_an_answer_that_is_not_valid_is_mended_or_counted(place: Place) -> None:
    def fails(asked: Asked) -> str:
        return in_form(asked, "down") if "no valid answer" in asked.question else f"\x1b]0;owned\x07 fly {KEY}"

    for answer, validity in ((fails, "repaired"), (lambda asked: "fly \x1b[2J", "defaulted")):
        script = Script(answer=answer)
        with serving(script) as url:
            status, out, err = place.run(url, params={"cache": False, "episodes": 1, "max_episode_steps": 2})
        assert status == 0, err
        assert len(script.questions) == 4  # each of two steps: a question and a repair
        assert "\x1b" not in out + err
        assert KEY.encode() not in place.everything(), "also where the server says it"
        assert [one["validity"] for one in place.recorded()] == [validity] * 2


def test_a_plan_is_one_call_and_is_given_up_when_something_else_happens(place: Place) -> None:
    def plan(asked: Asked) -> str:
        return "down, down, right, down" if "row 0" in asked.question else "right, right"

    script = Script(keeps=("grammar",), answer=plan)
    with serving(script) as url:
        assert place.run(url, "plan", params={"cache": False, "episodes": 1})[0] == 0
        assert len(script.questions) == 2  # six steps
        script.asked.clear()
        params = {"cache": False, "episodes": 1, "is_slippery": True, "max_episode_steps": 8}
        assert place.run(url, "plan", params=params, seed=1)[0] == 0
    assert len(script.questions) > 2


def test_examples_are_the_best_recorded_episodes_and_a_resumed_run_still_has_them(place: Place) -> None:
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        assert place.run(url)[0] == 0
        recording = Recording.new(place.folder / "recorded", {"kind": "run", "env_id": "FrozenLake-v1"})
        recording.add(Recording(place.newest / "outbox", {"kind": "run"}).chunks())
        own = place.folder / "mine.prompt"
        own.write_text((ROOT / "llm_worker/prompting/templates/default.prompt").read_text())
        params = {"examples_from": str(recording.folder), "examples": 1, "cache": False, "prompt": str(own)}
        assert place.run(url, "few_shot", params={**params, "episodes": 1})[0] == 0
        first = script.questions[-1].body["messages"][0]["content"]
        assert first.count("-> down") == 3 and first.endswith("(return 1)")
        checkpoint = str(list_checkpoints(place.newest / "checkpoints")[-1])
        shutil.rmtree(recording.folder)
        own.write_text(own.read_text().replace("Step {step}.", "Moment {step}."))
        start = {"mode": "resume", "checkpoint": checkpoint}
        status, out, err = place.run(url, "few_shot", params={**params, "episodes": 2}, start=start)
        assert status == 0, err
    assert "was changed since the run began" in out
    assert script.questions[-1].body["messages"][0]["content"] == first
    assert script.questions[-1].question.startswith("Step ")


def test_a_budget_ends_a_run_by_hand_with_a_sentence_and_keeps_what_was_done(place: Place) -> None:
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        status, out, err = place.run(url, params={"cache": False, "max_calls": 5})
    assert status == 0, err
    assert len(script.asked) == 5
    assert "the budget is used up: 5 calls of 5 calls (--max-calls)" in out
    assert read_manifest(list_checkpoints(place.newest / "checkpoints")[-1]).step == 4


def test_a_history_that_is_too_long_shrinks_and_the_run_goes_on(place: Place) -> None:
    script = Script(keeps=("grammar",), context=1000)
    with serving(script) as url:
        status, _, err = place.run(url, params={"cache": False, "episodes": 1, "history": 16})
    assert status == 0, err
    assert len(script.asked) > 7


def test_what_a_model_learned_is_told_in_the_next_episode_and_with_its_step(place: Place) -> None:
    def answer(asked: Asked) -> str:
        is_looking_back = asked.question.startswith("You played an episode")
        return f"I will not go left. Lesson {len(asked.question) % 7}." if is_looking_back else in_form(asked, "down")

    script = Script(keeps=("grammar",), answer=answer)
    with serving(script) as url:
        params = {"cache": False, "episodes": 3, "max_episode_steps": 2}
        assert place.run(url, "reflect", params=params)[0] == 0
    looked_back = [one for one in script.questions if one.question.startswith("You played an episode")]
    assert len(looked_back) == 2, "nobody learns from the last episode"
    assert "grammar" not in looked_back[0].body
    told = [one.body["messages"][0]["content"] for one in script.questions if one not in looked_back]
    assert ["I will not go left" in one for one in told] == [False] * 2 + [True] * 4
    notes = [one.get("note", "") for one in place.recorded()]
    assert ["the model said: I will not go left" in one for one in notes] == [False, False, True, False, True, False]


def test_a_model_that_thinks_aloud_has_its_thoughts_recorded_and_told_again(place: Place) -> None:
    def answer(asked: Asked) -> str:
        return f"Thinking: the ice is thin\n{in_form(asked, 'down')}"

    script = Script(keeps=("grammar",), answer=answer)
    with serving(script) as url:
        params = {"cache": False, "episodes": 1, "max_episode_steps": 3, "history_reasoning": 1}
        assert place.run(url, "cot", params=params)[0] == 0
    assert [one["reasoning"] for one in place.recorded()] == ["the ice is thin"] * 3
    assert [one["content"] for one in script.questions[-1].body["messages"] if one["role"] == "assistant"] == [
        "down",
        "the ice is thin\ndown",
    ]


def test_an_answer_that_was_cut_off_and_is_too_long_to_be_mended_costs_a_step_and_not_the_run(place: Place) -> None:
    def answer(asked: Asked) -> str:
        return "I think " * 100

    script = Script(answer=answer, every={"finish": "length"}, context=1300)
    with serving(script) as url:
        params = {"cache": False, "episodes": 1, "max_episode_steps": 2, "history": 0, "form": "tagged"}
        status, _, err = place.run(url, params=params)
    assert status == 0, err
    first, _ = place.recorded()
    assert first["validity"] == "defaulted"
    assert "cut off after 64 tokens (--max-answer)" in first["note"]
    assert "no room for a second turn" in first["note"]


def test_a_server_that_takes_no_pictures_is_told_of_in_one_sentence(place: Place) -> None:
    script = Script(keeps=("grammar",), faults={1: {"status": 400, "content": "image input is not supported"}})
    with serving(script) as url:
        params = {"pictures": True, "is_slippery": None, "cache": False}
        status, _, err = place.run(url, env_id="ALE/Pong-v5", params=params)
    assert status == 2
    assert "image input is not supported" in err and "leave --pictures out" in err
    assert isinstance(script.asked[1].body["messages"][-1]["content"], list)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"params": {"max_money": 1}}, "the price of m is not known"),
        ({"params": {"base_url": ""}}, "--base-url is missing"),
        ({"params": {"base_url": "http://me:secret@127.0.0.1/v1"}}, "must not hold a key"),
        ({"env_id": "Pendulum-v1", "params": {"is_slippery": None}}, "chooses among actions that can be counted"),
        ({"params": {"examples_from": "/nowhere"}}, "--examples-from is for few_shot"),
        ({"params": {"history_pictures": 2}}, "--history-pictures needs --pictures"),
        ({"params": {"pictures": True}}, "what FrozenLake-v1 shows has no picture"),
        ({"params": {"pictures": True, "model": "local", "base_url": ""}}, "the local model reads text alone"),
        ({"env_id": "FrozenLake-v9"}, "FrozenLake-v9"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(place: Place, config: dict[str, Any], sentence: str) -> None:
    status, _, err = place.run("http://127.0.0.1:9/v1", **config)
    assert status == 2
    assert sentence in err
    assert "secret" not in err and "Traceback" not in err


def test_a_wrong_key_ends_the_run_after_one_request(place: Place) -> None:
    script = Script(every={"status": 401})
    with serving(script) as url:
        status, _, err = place.run(url)
    assert status == 2
    assert len(script.asked) == 1
    assert "refused the key" in err
