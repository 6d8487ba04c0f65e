"""A person at a run, a checkpoint that acts, and the local model, in this process."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_worker import policies
from llm_worker.client.budget import Budget
from llm_worker.client.errors import BudgetError
from llm_worker.client.ledger import Ledger
from llm_worker.client.prices import Price, find_price
from llm_worker.client.reply import Reply, Usage
from llm_worker.local.model import find_python
from llm_worker.local.server_main import thread_count
from llm_worker.playing.person import Person
from llm_worker.policies import CarriedGrid, carried_back, load_policy, make_evaluation_env
from llm_worker.prompting.templates import find_template
from llm_worker.tests.scripted_server import KEY, Script, serving
from mosaic_protocol.dialogue import Exchange
from mosaic_protocol.live.messages import Tell
from mosaic_protocol.mind import GIVE_BACK, TAKE_OVER
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.acting import LoadedPolicy
from mosaic_worker.policies.evaluation import Episode
from mosaic_worker.policies.evaluation import Player as EpisodePlayer
from mosaic_worker.policies.evaluation_team import Task, play
from mosaic_worker.settings import read_settings
from mosaic_worker.state.checkpoints import describe_space

WORKER = Path(__file__).resolve().parents[1]


def args_of(url: str, algo: str = "direct", env_id: str = "FrozenLake-v1", **params: Any) -> SimpleNamespace:
    given = {"model": "m", "base_url": url, "cache": False, **params}
    settings = read_settings(load_manifest(WORKER), {"algo": algo, "env_id": env_id, "seed": 1, "params": given})
    return SimpleNamespace(**settings.arguments())


def checkpoint(algo: str = "direct", **player: Any) -> Any:
    return SimpleNamespace(manifest=SimpleNamespace(algo=algo, state={"player": player}), tensors={})


def test_a_checkpoint_acts_and_knows_how_it_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        args = args_of(url, is_slippery=False)
        policy = load_policy(checkpoint(rung="grammar"), args)
        assert not script.asked  # nothing is tried out again
        with make_evaluation_env(args) as env:
            policy.begin_episode()
            observation, _ = env.reset(seed=1)
            total, over = 0.0, False
            while not over:
                draws = np.random.default_rng(0)
                (action,) = policy.act(np.array([observation]), deterministic=True, random=draws)
                observation, reward, terminated, truncated, _ = env.step(int(action))
                policy.rewarded(float(reward))
                total, over = total + float(reward), terminated or truncated
    assert total == 1.0
    assert len(script.asked) == 6
    assert len(script.asked[-1].body["messages"]) == 2 + 2 * 4  # it remembers the episode


def test_a_checkpoint_asks_as_its_run_did_whatever_became_of_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    script = Script(keeps=("grammar",))
    text = find_template("default").text.replace("Step {step}.", "Moment {step}.")
    with serving(script) as url:
        args = args_of(url, "few_shot", prompt=str(tmp_path / "gone.prompt"), examples_from=str(tmp_path / "gone"))
        policy = load_policy(checkpoint("few_shot", rung="grammar", prompts=text, examples="S -> down"), args)
        policy.begin_episode()
        policy.act(np.array([0]), deterministic=True, random=np.random.default_rng(0))
    (asked,) = script.asked
    assert asked.question.startswith("Moment 0.")
    assert asked.body["messages"][0]["content"].endswith("Examples:\nS -> down")


def test_worlds_of_minigrid_are_carried_in_one_array() -> None:
    args = args_of("http://127.0.0.1:9/v1", env_id="MiniGrid-DoorKey-5x5-v0")
    with make_evaluation_env(args) as env:
        assert isinstance(env, CarriedGrid)
        shown, _ = env.reset(seed=2)
        inner = env.env.unwrapped.gen_obs()  # type: ignore[attr-defined]
        back = carried_back(shown, (7, 7, 3))
    assert (back["image"] == inner["image"]).all()
    assert (back["direction"], back["mission"]) == (inner["direction"], inner["mission"])


def test_a_person_takes_over_plays_and_gives_back() -> None:
    person = Person(("left", "go right"))
    assert not person.holds
    assert person.tell(Tell(TAKE_OVER, "goal")) == ""
    assert person.holds
    assert "did you mean" in person.tell(Tell("go rihgt", "goal"))
    assert person.tell(Tell(" Go  Right", "goal")) == ""
    assert not person.holds
    assert (person.take_action(), person.take_action()) == (1, None)
    assert person.holds
    assert person.tell(Tell(GIVE_BACK, "goal")) == ""
    assert person.tell(Tell("mind the hole \x1b[2J", "belief")) == ""
    assert person.take_hints() == "mind the hole [2J" and person.take_hints() == ""
    person.show(Exchange(response="x" * 100_000), 2, {"calls": 1.0})
    (seen,) = person.seen()
    assert seen.exchange is not None and len(seen.exchange.response) < 30_000
    assert [one.peer for one in seen.mind.messages] == ["person"] * 4


def test_a_budget_reserves_before_it_spends_and_is_extended() -> None:
    budget = Budget(tokens=100, money=1.0, price=Price(1e6, 1e6, 0.0))
    with pytest.raises(BudgetError, match="--max-tokens"):
        budget.require(Usage(90, 20))
    with pytest.raises(BudgetError, match="--max-money"):
        budget.require(Usage(1, 1))
    free = Budget(calls=1)
    free.require(Usage(5, 5))
    assert free.spend(Usage(5, 5)) is None
    with pytest.raises(BudgetError, match=r"1 call of 1 call \(--max-calls\), and the next call may take 1 call;"):
        free.require(Usage(1, 1))
    free.extend()
    free.require(Usage(1, 1))
    assert Price(2.0, 4.0, 1.0).of(Usage(1_000_000, 500_000, 500_000)) == 1.0 + 0.5 + 2.0


def test_prices_come_from_a_file_with_a_date(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('as_of = "2026-01-01"\n[models."a-*"]\nprompt = 1.0\ncompletion = 2.0\n')
    price = find_price("a-b", str(file))
    assert price == Price(1.0, 2.0, 1.0, "2026-01-01")
    assert find_price("unknown", str(file)) is None and find_price("unknown") is None
    file.write_text('[models."a"]\nprompt = 1.0\n')
    with pytest.raises(UsageError, match="as_of"):
        find_price("a", str(file))


def test_a_torn_ledger_gives_what_is_whole(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    ledger = Ledger(first)
    ledger.asks("e0.s0.t0", "h", Usage(9, 9), None)
    ledger.settled("e0.s0.t0", "h", Reply("left"), "server", 0.1)
    ledger.asks("e0.s1.t0", "i", Usage(9, 9), None)
    ledger.close()
    with ledger.path.open("ab") as file:
        file.write(b'{"at":"settled","place":"e0.s1')
    assert ledger.path.stat().st_mode & 0o077 == 0
    for name, parent in (("second", first), ("third", tmp_path / "second")):
        (tmp_path / name).mkdir()
        after = Ledger(tmp_path / name, parent)
        found = after.find("e0.s0.t0", "h")
        assert found is not None and found.text == "left"
        assert after.find("e0.s0.t0", "other") is None
        assert after.unsettled == ["e0.s1.t0"]
        after.close()


def test_a_local_model_that_is_missing_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="mosaic bundles install llm_local"):
        find_python({})
    with pytest.raises(UsageError, match="MOSAIC_LLM_LOCAL_PYTHON names /nowhere"):
        find_python({"MOSAIC_LLM_LOCAL_PYTHON": "/nowhere"})


@pytest.mark.parametrize(
    ("cores", "load", "threads"), [(2, 25.0, 1), (2, 0.0, 1), (1, 0.0, 1), (8, 0.4, 4), (8, 6.2, 2), (8, 30.0, 1)]
)
def test_the_local_model_takes_no_core_that_a_training_needs(cores: int, load: float, threads: int) -> None:
    assert thread_count(cores, load) == threads


def test_an_episode_costs_the_same_when_its_answers_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A contest compares what players take, whoever played before."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    prices = tmp_path / "prices.toml"
    prices.write_text('as_of = "2026-11-01"\n[models.m]\nprompt = 2.0\ncached = 1.0\ncompletion = 4.0\n')
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        policy = load_policy(checkpoint(rung="grammar"), args_of(url, cache=True, prices=str(prices)))
        spent = []
        for _ in range(2):
            policy.begin_episode()
            policy.act(np.array([0]), deterministic=True, random=np.random.default_rng(0))
            spent.append(policy.spent())
    assert len(script.asked) == 1, "the second episode asks nobody"
    assert spent[0] == spent[1]
    assert spent[0]["tokens"] > 1 and spent[0]["money"] > 0
    policy.begin_episode()
    assert policy.spent()["tokens"] == 0


def test_an_evaluation_that_is_stopped_waits_for_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    script = Script(keeps=("grammar",), faults={2: {"hang": True}})
    with serving(script) as url:
        args = args_of(url, is_slippery=False)
        policy = load_policy(checkpoint(rung="grammar"), args)
        with make_evaluation_env(args) as env:
            player = EpisodePlayer(policy, env, 1, deterministic=True)
            began = time.monotonic()
            episodes = [one for one in player.play(range(3), lambda: len(script.asked) > 2) if one is not None]
    assert not episodes and player.steps == 2
    assert time.monotonic() - began < 60  # the patience with a server is 120 s


@pytest.mark.parametrize("cache", [False, True])
def test_processes_that_play_side_by_side_ask_over_connections_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    script = Script(keeps=("grammar",))
    with serving(script) as url:
        args = args_of(url, is_slippery=False, cache=cache, timeout=30.0, attempts=1)
        kept = checkpoint()
        policy = load_policy(kept, args)  # the form is tried out: there is a connection before the fork
        with make_evaluation_env(args) as env:
            kept.manifest.env_id = "FrozenLake-v1"
            kept.manifest.spaces = {
                "observation": describe_space(env.observation_space),
                "action": describe_space(env.action_space),
            }
        task = Task(LoadedPolicy(kept, policy, policies, args), None, 1, True)
        found = [one for one in play(task, 6, 3, lambda: False) if isinstance(one, Episode)]
    assert sorted(one.number for one in found) == list(range(6)) and {one.total for one in found} == {1.0}
    ports = {asked.port for asked in script.asked}
    assert len(ports) == 4 if not cache else 2 <= len(ports) <= 4
