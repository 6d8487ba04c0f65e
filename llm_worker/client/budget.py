"""What a run may spend. A call reserves the most that it can cost before it goes out."""

from __future__ import annotations

from llm_worker.client.errors import BudgetError
from llm_worker.client.ledger import Spent
from llm_worker.client.prices import Price
from llm_worker.client.reply import Usage


class Budget:
    """Counts calls, tokens and money. 0: no limit."""

    def __init__(self, calls: int = 0, tokens: int = 0, money: float = 0.0, price: Price | None = None) -> None:
        self._steps = (calls, tokens, money)
        self._limits: list[float] = [calls, tokens, money]
        self._price = price
        self.spent = Spent()

    def require(self, most: Usage, failed: int = 0) -> None:
        """Whether an attempt of so many tokens at most may be made, where so many have failed that are not accounted
        yet. Raises BudgetError."""
        needs = (1, most.total, self.price_of(most) or 0.0)
        names = ("--max-calls", "--max-tokens", "--max-money")
        shown = (_calls, "{:,.0f} tokens".format, "${:,.6f}".format)
        for name, limit, known, need, form in zip(names, self._limits, self._used, needs, shown, strict=True):
            used = known + failed * need
            if limit and used + need > limit:
                raise BudgetError(
                    f"the budget is used up: {form(used)} of {form(limit)} ({name}), and the next call "
                    f"may take {form(need)}; resume the run to give it as much again"
                )

    def spend(self, usage: Usage | None) -> float | None:
        """What one call took, None where it is certain that no token was; its price, or None where it has none."""
        cost = self.price_of(usage) if usage is not None else 0.0
        self.spent.add(usage, cost)
        return cost

    def price_of(self, usage: Usage) -> float | None:
        return self._price.of(usage) if self._price is not None else None

    def extend(self) -> None:
        """As much again as at the beginning, from what is spent now."""
        self._limits = [used + step if step else 0 for used, step in zip(self._used, self._steps, strict=True)]

    @property
    def _used(self) -> tuple[int, int, float]:
        return self.spent.calls, self.spent.prompt + self.spent.completion, self.spent.money


def _calls(count: float) -> str:
    return "1 call" if count == 1 else f"{count:,.0f} calls"
