"""What a run may spend. A call reserves the most that it can cost before it goes out."""

from __future__ import annotations

from llm_worker.client.errors import BudgetError
from llm_worker.client.prices import Price
from llm_worker.client.reply import Usage


class Budget:
    """Counts calls, tokens and money. 0: no limit."""

    def __init__(self, calls: int = 0, tokens: int = 0, money: float = 0.0, price: Price | None = None) -> None:
        self._steps = (calls, tokens, money)
        self._limits: list[float] = [calls, tokens, money]
        self._price = price
        self.calls, self.prompt, self.completion, self.money = 0, 0, 0, 0.0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion

    def require(self, prompt: int, completion: int) -> None:
        """Whether a call of so many tokens at most may be made. Raises BudgetError."""
        most = Usage(prompt, completion)
        needs = (1, most.total, self.price_of(most) or 0.0)
        spent = (self.calls, self.tokens, self.money)
        names = ("--max-calls", "--max-tokens", "--max-money")
        shown = ("{:,.0f} calls", "{:,.0f} tokens", "${:,.6f}")
        for name, limit, used, need, form in zip(names, self._limits, spent, needs, shown, strict=True):
            if limit and used + need > limit:
                raise BudgetError(
                    f"the budget is used up: {form.format(used)} of {form.format(limit)} ({name}), and the next call "
                    f"may take {form.format(need)}; resume the run to give it as much again"
                )

    def spend(self, usage: Usage) -> float | None:
        """What a call took; its price, or None where it has none."""
        cost = self.price_of(usage)
        self.calls += 1
        self.prompt += usage.prompt
        self.completion += usage.completion
        self.money += cost or 0.0
        return cost

    def price_of(self, usage: Usage) -> float | None:
        return self._price.of(usage) if self._price is not None else None

    def spend_attempt(self) -> None:
        """An attempt that failed counts as a call: somebody was asked."""
        self.calls += 1

    def extend(self) -> None:
        """As much again as at the beginning, from what is spent now."""
        spent = (self.calls, self.tokens, self.money)
        self._limits = [used + step if step else 0 for used, step in zip(spent, self._steps, strict=True)]
