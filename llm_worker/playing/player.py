"""Decides what to do at a step: from the plan, or by asking the model, down the ladder of valid answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from llm_worker.client.caller import Answer, Caller
from llm_worker.client.errors import RequestRefusedError, TooLongError
from llm_worker.client.reply import Usage
from llm_worker.describing.describer import Describer, Seen, are_same
from llm_worker.prompting.forms import (
    PROBE_QUESTION,
    AnswerForm,
    RungMissingError,
    Understood,
    climb,
)
from llm_worker.prompting.history import Memory, Message, Windows, turns, user_message
from llm_worker.prompting.templates import Template
from llm_worker.settings import LLMSettings
from mosaic_protocol import dialogue
from mosaic_protocol.dialogue import Exchange

Attend = Callable[[], bool]
_PROBE_TOKENS = 24
_REFLECTION_TOKENS = 160
_STORY_STEPS = 20
_MOST_REPEATED = 2000
"""Characters of an answer that was not valid, which the model is reminded of."""
_PICTURE = "[picture]"
_LAST_SEED = 2**31 - 1
_LONGEST_LESSON = 1000


@dataclass(frozen=True)
class Decision:
    """An action, and what led to it."""

    action: int
    exchange: Exchange


class Player:
    """One model in one environment. What it remembers is plain data, for checkpoints. Belongs to one thread."""

    def __init__(
        self, settings: LLMSettings, describer: Describer, caller: Caller | None, env_id: str, examples: str = ""
    ) -> None:
        """``caller``: None for one that only says what it would ask."""
        self._settings, self._describer, self._calls, self._env_id = settings, describer, caller, env_id
        self._template = settings.template
        self._windows = settings.windows
        # What a checkpoint holds:
        self.prompts = settings.template.text
        """The template as it was when the run began: who changes the file afterwards changes other runs."""
        self.examples = examples
        self.rung = ""
        self.tried: dict[str, str] = {}
        self.memories: list[list[Any]] = []
        self.plan: list[int] = []
        self.expected: Any = None
        self.lessons: list[str] = []
        self.hint = ""
        self.last_reward = 0.0
        self.shrunk = 0
        """How often the history was halved, because the server took no longer prompt."""

    REMEMBERED = (
        "prompts",
        "examples",
        "rung",
        "tried",
        "memories",
        "plan",
        "expected",
        "lessons",
        "hint",
        "last_reward",
        "shrunk",
    )
    """The attributes that a checkpoint holds."""

    # ---- before the first step -----------------------------------------------------------------------------------

    def find_form(self, attend: Attend | None = None) -> None:
        """Find out in which form the server gives valid answers, unless that is known. Raises CallError."""
        settings = self._settings
        if self.prompts != self._template.text:
            self._template = Template(self.prompts, settings.template.path)
        if not self.rung:
            plans = settings.most_actions > 1
            ladder = climb(
                lambda place, more: self._probe(place, more, attend), settings.form, thinks=settings.thinks, plans=plans
            )
            self.rung, self.tried = ladder.rung, ladder.tried
        for _ in range(self.shrunk):
            self._windows = self._windows.shrunk() or self._windows
        self.form = AnswerForm(
            next(one for one in ("grammar", "guided", "schema", "tagged") if one == self.rung),
            tuple(self._describer.actions),
            settings.most_actions,
            settings.thinks,
        )

    def _probe(self, place: str, additions: dict[str, Any], attend: Attend | None) -> str:
        messages = [{"role": "user", "content": PROBE_QUESTION}]
        body = {"model": self._settings.model, "messages": messages, "max_tokens": _PROBE_TOKENS, "temperature": 0.0}
        try:
            return self._caller.call(place, body | additions, attend).reply.text
        except RequestRefusedError as error:
            raise RungMissingError(str(error)) from error

    @property
    def template(self) -> Template:
        return self._template

    @property
    def _caller(self) -> Caller:
        assert self._calls is not None, "it was made to say what it would ask"
        return self._calls

    def asks(self, observation: Any, step: int) -> tuple[dialogue.Message, ...]:
        """What would be asked about this observation."""
        messages = self._messages(self._observation_text(observation, step, ""), self._describer.describe(observation))
        return tuple(dialogue.Message(one["role"], _shown(one["content"])) for one in messages)

    def price_of(self, exchange: Exchange) -> float | None:
        """In dollars, wherever its answers came from; None where nobody knows the price."""
        return self._caller.budget.price_of(Usage(exchange.tokens_in, exchange.tokens_out))

    def begin_episode(self) -> None:
        self.memories, self.plan, self.expected = [], [], None

    # ---- one step ------------------------------------------------------------------------------------------------

    def decide(self, place: str, observation: Any, step: int, seed: int, attend: Attend | None = None) -> Decision:
        """``place`` names the step in the ledger; ``seed`` is for servers that draw. Raises CallError."""
        note = ""
        if self.plan:
            if self.expected is None or are_same(self.expected, observation):
                action = self.plan.pop(0)
                told = Exchange(
                    validity="planned", rung=self.rung, action=self._word(action), plan=self._words(self.plan)
                )
                return Decision(action, told)
            note = "the plan was given up: something else happened than it expected"
            self.plan = []
        decision = self._ask(place, observation, step, seed, attend)
        if note:
            both = f"{note}; {decision.exchange.note}" if decision.exchange.note else note
            decision = replace(decision, exchange=_with(decision.exchange, note=both))
        return decision

    def made(self, step: int, observation: Any, action: int, exchange: Exchange, after: Any, reward: float) -> None:
        """A step was made, by the model or by a person."""
        if exchange.validity == "person":
            self.plan = []
        if self._settings.most_actions > 1 and self.plan:
            predicted = self._describer.expects(observation, action)
            # Without rules that say what follows, a move that changes nothing and a reward are surprises.
            is_surprise = predicted is None and (are_same(observation, after) or reward != self.last_reward)
            self.expected = predicted
            if is_surprise:
                self.plan = []
                self.expected = None
        self.last_reward = reward
        prompt = self._observation_text(observation, step, "")
        kept = observation if self._windows.pictures else None
        self.memories.append([prompt, self._word(action), exchange.reasoning, kept])
        most = max(self._windows.text, _STORY_STEPS if self._settings.mode == "reflect" else 0) + 1
        self.memories = self.memories[-most:] if len(self.memories) > 2 * most else self.memories

    def _ask(self, place: str, observation: Any, step: int, seed: int, attend: Attend | None) -> Decision:
        seen = self._describer.describe(observation)
        question = self._observation_text(observation, step, self.hint)
        notes = []
        while True:
            messages = self._messages(question, seen)
            try:
                answer = self._caller.call(f"{place}.t0", self._body(messages, seed), attend)
                break
            except TooLongError:
                smaller = self._windows.shrunk()
                if smaller is None:
                    raise
                self._windows, self.shrunk = smaller, self.shrunk + 1
                place = f"{place}~"
                notes = [f"the prompt was too long: the history is {smaller.text} steps from here on"]
            except RequestRefusedError as error:
                if not self._settings.sees or seen.picture is None:
                    raise
                advice = "it was shown a picture: leave --pictures out for a model that reads text alone"
                raise RequestRefusedError(f"{error}; {advice}") from error
        self.hint = ""
        answers = [answer]
        understood = self.form.read(answer.reply.text)
        validity: dialogue.Validity = "valid"
        if understood.problem:
            notes.append(f"the first answer was not valid: {understood.problem}")
            if answer.reply.is_cut_off:
                notes.append(f"it was cut off after {self._settings.answer_tokens} tokens (--max-answer)")
            try:
                answers.append(self._repair(place, messages, answer, understood, seed, attend))
                mended = self.form.read(answers[-1].reply.text)
            except TooLongError:
                notes.append("there was no room for a second turn")
                mended = understood
            validity, understood = ("defaulted", understood) if mended.problem else ("repaired", mended)
        actions = list(understood.actions) or [self._describer.idle]
        self.plan, self.expected = actions[1:], None
        exchange = self._exchange(messages, answers, understood, validity, "; ".join(notes))
        return Decision(actions[0], _with(exchange, action=self._word(actions[0]), plan=self._words(self.plan)))

    def _repair(
        self,
        place: str,
        messages: Sequence[Message],
        answer: Answer,
        understood: Understood,
        seed: int,
        attend: Attend | None,
    ) -> Answer:
        """One more turn in which the model may mend its answer."""
        values = self._values() | {"problem": understood.problem}
        asked = self._template.fill("repair", values)
        said = answer.reply.text[:_MOST_REPEATED] or "(nothing)"
        more = [*messages, {"role": "assistant", "content": said}, {"role": "user", "content": asked}]
        return self._caller.call(f"{place}.t1", self._body(more, seed), attend)

    def reflect(self, place: str, total: float, length: int, seed: int, attend: Attend | None = None) -> Answer | None:
        """After an episode of the mode reflect: one more lesson. None where no story of it is short enough for the
        model. Raises CallError."""
        steps = _STORY_STEPS
        while True:
            story = "\n".join(f"{one[0].splitlines()[-1]} -> {one[1]}" for one in self.memories[-steps:])
            values = self._values() | {"return": f"{total:g}", "length": length, "story": story}
            body = self._body([user_message(self._template.fill("reflect", values), None)], seed)
            for name in ("grammar", "guided_choice", "response_format"):
                body.pop(name, None)
            body["max_tokens"] = _REFLECTION_TOKENS
            try:
                answer = self._caller.call(f"{place}.reflect", body, attend)
                break
            except TooLongError:
                steps //= 2
                if not steps:
                    return None
        said = " ".join(answer.reply.text.split())
        self.lessons = [*self.lessons, said[:_LONGEST_LESSON]][-self._settings.lessons :] if said else self.lessons
        return answer

    # ---- prompts -------------------------------------------------------------------------------------------------

    def _values(self) -> dict[str, object]:
        lessons = "".join(f"\n- {one}" for one in self.lessons)
        return {
            "env_id": self._env_id,
            "rules": self._describer.rules,
            "actions": ", ".join(self._describer.actions),
            "format": self.form.instruction(),
            "examples": f"\n\nExamples:\n{self.examples}" if self.examples else "",
            "lessons": f"\n\nWhat you learned in earlier episodes:{lessons}" if lessons else "",
        }

    def _observation_text(self, observation: Any, step: int, hint: str) -> str:
        words = {"step": step, "observation": self._describer.describe(observation).text}
        told = f"\nA person tells you: {hint}" if hint else ""
        return self._template.fill("observation", self._values() | words | {"hint": told})

    def _messages(self, question: str, seen: Seen) -> list[Message]:
        system = {"role": "system", "content": self._template.fill("system", self._values())}
        memories = [Memory(*one) for one in self.memories]
        shown = self._windows.pictures if self._settings.sees else 0
        old = [self._describer.describe(one.seen) for one in memories[-shown:] if one.seen is not None] if shown else []
        windows = Windows(self._windows.text, len(old), self._windows.reasoning)
        return [system, *turns(memories, windows, old), user_message(question, seen if self._settings.sees else None)]

    def _body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        settings = self._settings
        drawn = {"seed": seed % _LAST_SEED} if settings.temperature else {}
        return {
            "model": settings.model,
            "messages": list(messages),
            "max_tokens": settings.answer_tokens,
            "temperature": settings.temperature,
            **drawn,
            **self.form.enforced(),
        }

    # ---- the record ----------------------------------------------------------------------------------------------

    def _exchange(
        self,
        messages: Sequence[Message],
        answers: Sequence[Answer],
        understood: Understood,
        validity: dialogue.Validity,
        note: str,
    ) -> Exchange:
        last = answers[-1].reply
        usages = [one.reply.usage for one in answers]
        cached = [one.cached for one in usages if one.cached is not None]
        costs = [one.cost for one in answers]
        reasoning = "\n".join(one for one in (last.reasoning, understood.reasoning) if one)
        return Exchange(
            prompt=tuple(dialogue.Message(one["role"], _shown(one["content"])) for one in messages),
            response="\n---\n".join(one.reply.text for one in answers),
            reasoning=reasoning,
            validity=validity,
            rung=self.rung,
            source=answers[-1].source,
            calls=sum(one.source == "server" for one in answers),
            attempts=sum(one.attempts for one in answers),
            tokens_in=sum(one.prompt for one in usages),
            tokens_out=sum(one.completion for one in usages),
            cached_tokens=sum(cached) if cached else None,
            is_estimated=any(one.is_estimated for one in usages),
            seconds=sum(one.reply.seconds for one in answers),
            cost=None if None in costs else sum(one or 0.0 for one in costs),
            note=note,
        )

    def _word(self, action: int) -> str:
        return self._describer.actions[action]

    def _words(self, actions: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self._word, actions))


def _with(exchange: Exchange, **changes: Any) -> Exchange:
    return msgspec.structs.replace(exchange, **changes)


def _shown(content: Any) -> str:
    """A message in words; its pictures are those of the step's observation."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else _PICTURE for part in content)
