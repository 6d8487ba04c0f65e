"""One run: episodes one after the other, every step recorded with what the model was asked and answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import numpy as np

from llm_worker.client.connecting import open_caller
from llm_worker.client.errors import AbandonedError, BudgetError, CallError
from llm_worker.client.ledger import Spent
from llm_worker.describing.choice import describer_for, require_pictures
from llm_worker.environments import make_env
from llm_worker.playing.examples import examples_text
from llm_worker.playing.figures import EpisodeFigures
from llm_worker.playing.person import Person
from llm_worker.playing.player import Player
from llm_worker.settings import EPISODES_WITHOUT_A_LIMIT, read_params
from mosaic_protocol.dialogue import DIALOGUE, Exchange, noted, recorded
from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession
from mosaic_worker.training.watching import drawing

_LOOK_SECONDS = 0.05
_LONGEST_NOTE = 1000
T = TypeVar("T")


class LLMRunner:
    """Owns the run's environment, its model and the record. :meth:`run` returns when the run is over."""

    def __init__(self, session: TrainingSession, settings: Settings, living: ExitStack) -> None:
        """Raises UsageError for what cannot run."""
        self._session, self._settings = session, settings
        self._told = read_params(settings.algo, settings.params, settings.seed)
        self._env = make_env(settings.env_id, settings.params)
        living.callback(self._env.close)
        self._describer = describer_for(self._env)
        if self._told.sees:
            require_pictures(self._env, self._describer, settings.seed)
        parent = Path(settings.resume).absolute().parents[1] if settings.resume else None
        self._caller = open_caller(self._told, session.run_dir, parent, living)
        # A run that is resumed has its examples, and its template, from the run before.
        examples = "" if settings.resume else examples_text(settings, self._describer)
        self._player = Player(self._told, self._describer, self._caller, settings.env_id, examples)
        self._person = Person(self._describer.actions)
        self._figures = EpisodeFigures()
        self._lane = session.steps.lane(self._told.model, actor="llm")
        self._known: set[str] = set()
        """The hashes of the texts that this episode's record has."""
        self.step, self.episode = 0, 0
        self.place, self.total = -1, 0.0
        """The step within the episode; -1 where none runs."""
        self.observation: Any = None
        self.spent = [0, 0, 0, 0.0]
        self.owed: list[Any] = []
        """Of an episode that is over and that the model has not looked back on yet: its name, return and length."""
        self.lesson = ""
        self.state = self._training_state()

    def _training_state(self) -> TrainingState:
        state = TrainingState()
        state.attributes("run", self, "step", "episode", "place", "total", "observation", "spent", "owed", "lesson")
        state.attributes("player", self._player, *Player.REMEMBERED)
        state.attributes("figures", self._figures, "kept")
        state.envs("envs", SimpleNamespace(envs=[self._env]), restart=self._begin_again)
        return state

    def _begin_again(self) -> None:
        """The inner state of this environment cannot be kept: the episode begins once more."""
        self.place = -1

    # ---- the run -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises UsageError with what went wrong, in one sentence."""
        session = self._session
        session.restore(self.state, self._settings.resume, None, ("model", "prompt", "history", "temperature"))
        if self._player.prompts != self._told.template.text:
            print(
                f"{self._told.template.path} was changed since the run began; it goes on with the text it began with."
            )
        self._begin_from_spent()
        session.begin(self._settings.total_timesteps)
        session.show(drawing(self._env), self._person)
        try:
            self._tell_unsettled()
            self._with_budget(lambda: self._player.find_form(self._attend))
            self._tell_form()
            self._save(required=True)
            while not self._is_over:
                self._attend()
                self._turn()
        except AbandonedError:
            pass  # the run stops; what was done stands
        except CallError as error:
            self._save(required=True)
            raise UsageError(str(error)) from error
        except BaseException:
            self._save(required=False)
            raise
        self._save(required=True)

    @property
    def _is_over(self) -> bool:
        settings = self._settings
        episodes = int(settings.params["episodes"])
        if not episodes and settings.total_timesteps is None:
            episodes = EPISODES_WITHOUT_A_LIMIT
        reached = settings.total_timesteps is not None and self.step >= settings.total_timesteps
        return bool(self._session.stop_requested or reached or (episodes and self.episode >= episodes))

    def _attend(self) -> bool:
        """What the session wants, between two looks at the server; whether to go on."""
        self._session.safe_point(self.step)
        return not self._session.stop_requested

    def _turn(self) -> None:
        if self.place < 0:
            if self.owed and self._with_budget(self._reflect) is None:
                return
            self._begin_episode()
        elif not len(self._known):
            self._lane.begin_episode(None)  # a resumed episode: its beginning is in the record of the run before
        name = f"e{self.episode}.s{self.place}"
        decided = self._decide(name)
        if decided is None:
            return
        action, told = decided
        self._make_step(action, told)
        if self._session.is_checkpoint_due(self.step):
            self._save(required=False)

    def _begin_episode(self) -> None:
        seed = self._settings.seed + self.episode
        self.observation, _ = self._env.reset(seed=seed)
        self.place, self.total = 0, 0.0
        self._player.begin_episode()
        if not self.lesson:
            self._figures.begin()
        self._known.clear()
        self._lane.begin_episode(seed)

    # ---- one step ------------------------------------------------------------------------------------------------

    def _decide(self, name: str) -> tuple[int, Exchange] | None:
        """None when the run stops first."""
        person = self._person
        if person.holds:  # who is to choose sees what the model would be asked now
            asked = Exchange(self._player.asks(self.observation, self.place), validity="person")
            person.show(asked, self.episode, self._sums())
        while person.holds:
            if not self._attend():
                return None
            time.sleep(_LOOK_SECONDS)
        if (action := person.take_action()) is None:
            if hint := person.take_hints():
                self._player.hint = f"{self._player.hint}; {hint}" if self._player.hint else hint
            seed = self._settings.seed * 1_000_003 + self.step
            ask = lambda: self._player.decide(name, self.observation, self.place, seed, self._attend)  # noqa: E731
            decision = self._with_budget(ask)
            if decision is None:
                return None
            action, told = decision.action, decision.exchange
            # Who took over meanwhile decides; what the model said stands beside it.
            instead = person.take_action()
            if instead is None:
                return action, told
            told = noted(told, f"the model said: {told.action}")
            action = instead
        else:
            told = Exchange()
        return action, msgspec.structs.replace(told, validity="person", action=self._describer.actions[action], plan=())

    def _make_step(self, action: int, told: Exchange) -> None:
        before = self.observation
        if self.lesson:
            told = noted(told, self.lesson)
            self.lesson = ""
        number = action + int(getattr(self._env.action_space, "start", 0))
        after, reward, terminated, truncated, info = self._env.step(number)
        self._player.made(self.place, before, action, told, after, float(reward))
        self._figures.note(told, self._describer.progression(after))
        actor = "human" if told.validity == "person" else None
        extras = {DIALOGUE: msgspec.to_builtins(recorded(told, self._known))}
        self._known.add("")
        is_over = bool(terminated or truncated)
        final = after if is_over else None
        self._lane.append(
            before, number, float(reward), terminated, truncated, actor=actor, extras=extras, final_observation=final
        )
        self.step, self.place, self.total, self.observation = (
            self.step + 1,
            self.place + 1,
            self.total + float(reward),
            after,
        )
        self._note_spent()
        self._person.show(told, self.episode, self._sums())
        self._session.note_step(self.step)
        if is_over:
            self._end_episode(bool(terminated), info)

    def _end_episode(self, terminated: bool, info: dict[str, Any]) -> None:
        success = bool(info.get("success", info.get("is_success", terminated and self.total > 0)))
        row = {
            "charts/episodic_return": self.total,
            "charts/episodic_length": float(self.place),
            "charts/SPS": self._session.steps_per_second(self.step),
            **self._figures.row(success=success),
        }
        self._session.scalars(self.step, row)
        if self._told.mode == "reflect":
            self.owed = [f"e{self.episode}", self.total, self.place]
        self.episode, self.place = self.episode + 1, -1

    def _reflect(self) -> bool:
        """What it takes counts for the episode that it prepares."""
        name, total, length = self.owed
        seed = self._settings.seed * 1_000_003 + self.step
        answer = self._player.reflect(str(name), float(total), int(length), seed, self._attend)
        self.owed = []
        self._figures.begin()
        if answer is None:
            self.lesson = "the model was not asked what it learned: no story of the episode is short enough for it"
        else:
            self._figures.note_call(answer)
            usage = answer.reply.usage
            self.lesson = f"asked what it learned ({usage.prompt} + {usage.completion} tokens), the model said: " + (
                one_line(answer.reply.text)[:_LONGEST_NOTE] or "nothing"
            )
        return True

    # ---- money ---------------------------------------------------------------------------------------------------

    def _with_budget(self, ask: Callable[[], T]) -> T | None:
        """Ask; where the budget is used up the run pauses, and a person who resumes it gives as much again. None when
        it is stopped instead."""
        while True:
            try:
                return ask()
            except BudgetError as error:
                print(str(error), flush=True)
                self._save(required=True)
                if not self._session.pause(self.step, str(error)):
                    self._session.stop_requested = True
                if self._session.stop_requested:
                    return None
                self._caller.budget.extend()

    def _begin_from_spent(self) -> None:
        """A resumed run has spent what the run before had: as its ledger says, which is newer than its checkpoint, or
        as the checkpoint does where that is all there is."""
        known = self._caller.budget.spent
        calls, prompt, completion, money = self.spent
        if int(calls) > known.calls:
            self._caller.budget.spent = Spent(int(calls), int(prompt), int(completion), float(money))

    def _note_spent(self) -> None:
        spent = self._caller.budget.spent
        self.spent = [spent.calls, spent.prompt, spent.completion, spent.money]

    def _sums(self) -> dict[str, float]:
        calls, asked, answered, money = self.spent
        sums = {"calls": float(calls), "tokens in": float(asked), "tokens out": float(answered)}
        return sums | ({"cost": float(money)} if self._told.price is not None else {})

    # ---- words and files -----------------------------------------------------------------------------------------

    def _tell_unsettled(self) -> None:
        if places := self._caller.unsettled:
            told = ", ".join(places[:5])
            print(
                f"Unsettled: the run before ended while a call was in flight ({told}). It is made once more; the "
                "server may charge for both.",
                flush=True,
            )

    def _tell_form(self) -> None:
        if self._player.rung:
            tried = "; ".join(f"{name}: {what}" for name, what in self._player.tried.items())
            print(f"Answers come by {self._player.rung} ({tried}).", flush=True)
            prompt = self._player.template
            about = {
                "llm_server": "this machine" if self._told.is_local else self._told.base_url,
                "llm_rung": self._player.rung,
                "llm_tried": dict(self._player.tried),
                "llm_prompt_sha256": prompt.sha256,
                "llm_price": self._told.price.as_words() if self._told.price is not None else "unknown",
            }
            self._session.note_arguments(about)

    def _save(self, *, required: bool) -> None:
        spaces = {"observation": describe_space(self._env.observation_space)}
        spaces["action"] = describe_space(self._env.action_space)
        self._note_spent()
        tensors, state = self.state.capture()
        # A checkpoint of this worker holds no weights, and is a folder with a file of tensors all the same.
        self._session.save_checkpoint(
            self.step, {**tensors, "llm.steps": np.array([self.step])}, state, spaces, required=required
        )
