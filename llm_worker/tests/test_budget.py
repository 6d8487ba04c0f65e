"""What a run may spend: limits hold whatever fails, pauses or is killed, and whatever a prompt turns out to count."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from llm_worker.client import endpoint as endpoints
from llm_worker.client.budget import Budget
from llm_worker.client.caller import Caller
from llm_worker.client.endpoint import ChatEndpoint
from llm_worker.client.errors import BudgetError, CallError
from llm_worker.client.ledger import Ledger
from llm_worker.client.prices import Price
from llm_worker.tests.scripted_server import KEY, Script, serving


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "FIRST_WAIT", 0.001)


def body(text: str = "row 0, column 0", most: int = 8) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": most}


def make(living: ExitStack, url: str, budget: Budget, folder: Path | None = None, parent: Path | None = None) -> Caller:
    if folder is not None:
        folder.mkdir()
    ledger = Ledger(folder, parent) if folder is not None else None
    caller = Caller(ChatEndpoint(url, KEY, timeout=5.0), ledger, None, budget)
    living.callback(caller.close)
    return caller


def test_attempts_that_fail_do_not_get_past_a_limit_of_calls(tmp_path: Path) -> None:
    script = Script(every={"status": 500})
    with ExitStack() as living, serving(script) as url:
        budget = Budget(calls=3)
        caller = make(living, url, budget, tmp_path / "run")
        with pytest.raises(BudgetError, match=r"3 calls of 3 calls \(--max-calls\)"):
            caller.call("e0.s0.t0", body())
    assert len(script.asked) == budget.spent.calls == 3


def test_an_answer_that_nobody_could_read_counts_with_what_it_reserved() -> None:
    script = Script(faults={0: {"raw": b"{"}})
    with ExitStack() as living, serving(script) as url:
        budget = Budget(tokens=10_000, price=Price(1.0, 1.0, 1.0))
        make(living, url, budget).call("e0.s0.t0", body(most=100))
    assert budget.spent.calls == 2
    assert budget.spent.completion >= 100 + 1
    assert budget.spent.money > 0


def test_a_limit_of_tokens_holds_where_a_prompt_counts_more_than_it_looks() -> None:
    """A map has a token for each of its characters; words have one for four."""
    limit = 4_000

    def counted(asked: Any) -> str:
        return "<action>up</action>"

    script = Script(answer=counted)
    with ExitStack() as living, serving(script) as url:
        budget = Budget(tokens=limit)
        caller = make(living, url, budget)
        for number in range(50):
            text = f"{number} " + "# " * 400  # that server counts words
            with suppress(BudgetError):
                caller.call(f"e0.s{number}.t0", body(text))
    assert limit - 1500 < budget.spent.prompt + budget.spent.completion <= limit


def test_a_step_that_is_begun_again_behind_a_pause_pays_for_no_answer_twice(tmp_path: Path) -> None:
    script = Script()
    with ExitStack() as living, serving(script) as url:
        budget = Budget()
        caller = make(living, url, budget, tmp_path / "run")
        first = caller.call("e0.s0.t0", body())
        again = caller.call("e0.s0.t0", body())
    assert (first.source, again.source) == ("server", "ledger")
    assert first.reply == again.reply
    assert len(script.asked) == budget.spent.calls == 1


def test_what_a_killed_run_spent_counts_for_the_one_that_goes_on(tmp_path: Path) -> None:
    """Also what was made since its last checkpoint, what failed, and the call that was in flight."""
    script = Script(faults={1: {"status": 500}})
    with ExitStack() as living, serving(script) as url:
        price = Price(2.0, 4.0, 2.0)
        before = Budget(price=price)
        caller = make(living, url, before, tmp_path / "one")
        for number in range(3):
            caller.call(f"e0.s{number}.t0", body(f"step {number}"))
        assert before.spent.calls == 4
        with (tmp_path / "one" / "llm" / "ledger.jsonl").open("a") as file:
            most = {"prompt": 50, "completion": 8}
            file.write(
                json.dumps({"at": "asks", "place": "e0.s3.t0", "request": "h", "most": most, "cost": 0.5}) + "\n"
            )
        after = Budget(calls=6, price=price)
        again = make(living, url, after, tmp_path / "two", tmp_path / "one")
        assert after.spent.calls == 5
        assert after.spent.prompt == before.spent.prompt + 50
        assert after.spent.money == pytest.approx(before.spent.money + 0.5)
        assert again.call("e0.s0.t0", body("step 0")).source == "ledger"
        assert after.spent.calls == 5, "it is in the books already"
        again.call("e0.s3.t0", body("step 3"))
        with pytest.raises(CallError, match="6 calls of 6"):
            again.call("e0.s4.t0", body("step 4"))
        third = Budget()
        make(living, url, third, tmp_path / "three", tmp_path / "two")
        assert third.spent.calls == 6
