"""One live session: the loop around its environments, and what those who watch want of it.

Everything happens in one thread. Commands of watchers, and wake-ups of a policy that has an answer, arrive in one
inbox, so whatever the session waits for it waits in one place, :meth:`Play._wait`. Several sides make their steps
together: none before all have made the one before.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from typing import TYPE_CHECKING

from mosaic_protocol.live.messages import Advise, Command, Hello, Round, SeatState, State
from mosaic_worker.errors import UsageError
from mosaic_worker.live.server import LiveServer
from play_worker.beginning import Beginning
from play_worker.commands import Commands
from play_worker.film import Film
from play_worker.games import chosen_settings
from play_worker.pace import Pace
from play_worker.seating import first_wishes, names_of
from play_worker.side import Side
from play_worker.stage import Stage, with_keys
from play_worker.telling import finite, hello_of, seat_state

if TYPE_CHECKING:
    from mosaic_worker.settings import Settings
    from mosaic_worker.training.session import TrainingSession

_LOOK_SECONDS = 0.05
"""How long the session waits at most before it looks whether the run is to pause or to stop."""
_PICTURE_SECONDS = 1 / 120
_MOST_COMMANDS = 256
"""That wait to be followed; what is sent beyond waits with its sender."""
_LAST_SEED = 2**31 - 1
_MOST_ROUNDS = 100
"""That are told: the record has them all."""
_OF_A_SEAT = tuple(name for name in SeatState.__struct_fields__ if name != "name")
"""What a state says of the first seat, for those who know of one."""


class Play:
    """A session from its first episode to its end. Use :meth:`run` once, then :meth:`close`."""

    def __init__(self, session: TrainingSession, settings: Settings) -> None:
        """Raises UsageError for what cannot be played."""
        params = dict(settings.params)
        self._session, self._settings, self._params = session, settings, params
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.sides: list[Side] = []
        self._beginning = Beginning.asked_for(params)
        try:
            self._take_sides()
            self.pace = Pace(self.sides[0].stage.fps, float(params.get("speed", 1.0)))
            self._commands = Commands(self)
            self.server = LiveServer(session.run_dir, self._hello(), self._inbox.put, self._trouble, self._has_room)
        except BaseException:
            self._close_sides()
            raise
        self.seed, self._steps, self._rounds = settings.seed, 0, 0
        self._film = Film(session.run_dir / "videos", wanted=bool(params.get("frames")))
        self.is_paused = self.single = self.ended = False
        self._is_held = False
        self.awaits_key = False
        """A game that runs by the clock begins with a key of the person."""
        self._times_left_alone = 0
        self._told_rounds: deque[Round] = deque(maxlen=_MOST_ROUNDS)
        self._changed, self._moved, self._shown_at = True, True, 0.0

    def _take_sides(self) -> None:
        wishes, params = first_wishes(self._params), self._params
        for wish, name in zip(wishes, names_of(len(wishes)), strict=True):
            stage = with_keys(Stage(self._settings.env_id, params), params)
            lane = self._session.steps.lane(name)
            self.sides.append(Side(name, wish, stage, params, lane, lambda: self._inbox.put(None)))

    # ---- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Play until somebody ends it, or as many steps or episodes as were asked for are played. Raises UsageError
        when an environment breaks, and for a first policy that cannot be loaded."""
        self._session.begin(self._settings.total_timesteps)
        self._take_first_seats()
        if not self.is_finished:
            self._begin_first_round()
        while not self.is_finished:
            self._turn()
        self._show(at_once=True)
        self._count_faults()

    def _count_faults(self) -> None:
        """What went wrong and was played on without is part of the record."""
        pictures = sum(side.stage.picture_failures for side in self.sides)
        seats = sum(side.seat.failures for side in self.sides)
        if pictures or seats:
            self._session.scalars(self._steps, {"faults/pictures": pictures, "faults/seats": seats})

    def close(self) -> None:
        self.server.close()
        self._film.close()
        self._close_sides()

    def _close_sides(self) -> None:
        for side in self.sides:
            side.close()

    @property
    def is_finished(self) -> bool:
        most, episodes = self._settings.total_timesteps, int(self._params.get("episodes", 0))
        reached = (most is not None and self._steps >= most) or (episodes and self._rounds >= episodes)
        return bool(self.ended or reached or self._session.stop_requested)

    def _turn(self) -> None:
        """One look at everything: at most one step of each side."""
        self._attend()
        for side in self.sides:
            self._look_at(side)
        playing = [side for side in self.sides if side.is_playing]
        if self.is_finished:
            return
        if self.is_paused and not self.single:
            self._wait(_LOOK_SECONDS)
        elif not playing:
            self._between_rounds()
        elif self.awaits_key and self.is_person_there and not self.single:
            self._wait(_LOOK_SECONDS)
        elif not self._person_decides and (left := self.pace.seconds_left):
            self._wait(min(left, _LOOK_SECONDS))
        elif not self._all_chose(playing):
            self._hear_refusals()
            self._wait(_LOOK_SECONDS)
        else:
            self._make_steps(playing)
            self._show()

    @staticmethod
    def _all_chose(playing: list[Side]) -> bool:
        """Each is asked, also when another one still thinks: they think at the same time."""
        chose = [side.choose() for side in playing]
        return all(chose)

    def _look_at(self, side: Side) -> None:
        if side.seat.look():
            self._changed = True
            self._require_somebody(side)
            side.look_again()
        if side.seat.turns != side.seen_turns:
            side.seen_turns = side.seat.turns
            side.look_again()
            # Who takes over a running game finds it as it was left, and begins with a key.
            self.awaits_key = not (self.waits or side.seat.human.holds_keys)
            self.pace.begin()

    @property
    def waits(self) -> bool:
        """Whether the environments wait for a person's move."""
        return self.sides[0].stage.waits

    @property
    def is_person_there(self) -> bool:
        return any(side.is_waiting for side in self.sides)

    @property
    def _person_decides(self) -> bool:
        """Whether a person, not the clock, says when the next step is made."""
        return self.waits and self.is_person_there

    def _take_first_seats(self) -> None:
        """A person waits for nobody. A policy is waited for, because there is nobody yet who could play on."""
        for side in self.sides:
            side.seat.hand_over(side.wish)
            if side.wish.actor == "human" and (checkpoint := str(self._params.get("checkpoint") or "")):
                side.seat.advise(Advise(checkpoint))
        while any(side.seat.expected for side in self.sides) and not self.is_finished:
            self._wait(_LOOK_SECONDS)
            self._attend()
            for side in self.sides:
                side.seat.look()
        for side in self.sides:
            if side.wish.actor == "policy" and side.seat.is_human and side.seat.problem:
                raise UsageError(side.seat.problem)
            side.seen_turns = side.seat.turns

    def _require_somebody(self, side: Side) -> None:
        """The seat fell back to the person. Without anybody who watches it would wait for ever."""
        if not (side.seat.is_human and side.seat.problem) or self.server.watchers or side.wish.actor == "human":
            return
        if side.wish.actor == "scripted":
            self.ended = True
        else:
            raise UsageError(side.seat.problem)

    # ---- rounds and steps ----------------------------------------------------------------------------------------

    def _begin_first_round(self) -> None:
        """From the beginning, or where somebody takes over a recorded episode."""
        taken = self._beginning
        self.begin_round(self.seed if taken is None else taken.seed)
        if taken is not None:
            for side in self.sides:
                side.play_again(taken, lambda: self._film_step(side))  # noqa: B023 - called before the next one
                self._steps += side.step
            self._session.note_step(self._steps)
            self.moved()

    def begin_round(self, seed: int) -> None:
        """Every side begins an episode with this seed."""
        self.seed = seed
        for side in self.sides:
            side.begin_episode(seed)
        self._film.begin(self.sides[0], self._steps)
        self.awaits_key = not self.waits
        self.pace.begin()
        self.moved()

    def _between_rounds(self) -> None:
        """A person looks at how it ended, and begins the next one with a key; others go on."""
        if any(side.seat.is_human for side in self.sides):
            self._wait(_LOOK_SECONDS)
        else:
            self._show()
            self.begin_round(self.next_seed)

    @property
    def next_seed(self) -> int:
        return (self.seed + 1) % _LAST_SEED

    def _make_steps(self, playing: list[Side]) -> None:
        self.single = False
        for side in playing:
            if not len(side.history) and not (self.server.watchers or side.seat.is_human):
                side.history.forget()  # nobody is there who could undo anything
            side.make_step()
            self._film_step(side)
            self._steps += 1
        self._session.note_step(self._steps)
        self.pace.stepped()
        self.moved()
        if not any(side.is_playing for side in self.sides):
            self._end_round()

    def _film_step(self, side: Side) -> None:
        if side is self.sides[0]:
            self._film.add(side)

    def _end_round(self) -> None:
        self._rounds += 1
        totals = tuple(finite(side.total) for side in self.sides)
        self._told_rounds.append(Round(self.seed, totals, tuple(side.step for side in self.sides)))
        row: dict[str, float] = {"charts/SPS": self._session.steps_per_second(self._steps)}
        for side in self.sides:
            place = f"charts/{side.name}/" if side.name else "charts/"
            row |= {f"{place}episodic_return": side.total, f"{place}episodic_length": side.step}
        self._session.scalars(self._steps, row)

    def undo(self, steps: int) -> None:
        """Go back, every side to the same step. Raises UsageError, and nothing is undone."""
        place = max(side.step for side in self.sides) - steps
        undone = [(side, side.earlier(side.step - place)) for side in self.sides if side.step > place]
        was_over = not any(side.is_playing for side in self.sides)
        for side, earlier in undone:
            side.go_back(earlier)
        if undone:
            self._film.spoil()
        if was_over and undone:
            self._rounds -= 1
            self._told_rounds.pop()
        self.awaits_key = not self.waits
        self.pace.begin()
        self.moved()

    @property
    def can_undo(self) -> int:
        step = max(side.step for side in self.sides)
        return step if all(len(side.history) == side.step for side in self.sides) else 0

    # ---- commands ------------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """What is wanted of the run and what came from watchers, without waiting."""
        if self._session.is_asked:
            self._is_held = self._changed = True
            self._show(at_once=True)
            self._session.safe_point(self._steps)  # waits here while the run is paused
            self._is_held = False
            self._changed = True
            self.pace.begin()
        for _ in range(self._inbox.qsize()):  # what comes meanwhile waits for the next turn
            self._follow(self._inbox.get())
        self._notice_who_left()

    def _notice_who_left(self) -> None:
        """A game that runs by the clock stands still when the last watcher leaves a person's seat, in whatever way:
        nobody is there to play on."""
        times = self.server.times_left_alone
        if times != self._times_left_alone and self.is_person_there and not (self.waits or self.awaits_key):
            self.is_paused = self._changed = True
        self._times_left_alone = times

    def _has_room(self) -> bool:
        """In the server's thread: whether the session takes more commands."""
        return self._inbox.qsize() < _MOST_COMMANDS

    def _wait(self, seconds: float) -> None:
        """Until a command or a wake-up comes, at most so long; no longer than until what changed may be shown."""
        self._show()
        if self._changed and self.server.watchers:
            seconds = min(seconds, max(0.001, self._shown_at + _PICTURE_SECONDS - time.monotonic()))
        try:
            self._follow(self._inbox.get(timeout=seconds))
        except queue.Empty:
            return

    def _follow(self, command: Command | None) -> None:
        self._changed = True
        if command is not None:
            self._commands.follow(command)

    def _hear_refusals(self) -> None:
        """An action that does not fit is a person's mistake, or that of an actor who then gave the seat back."""
        for side in self.sides:
            if sentence := side.taken_refusal():
                self._changed = True
                self.server.refuse(sentence)
                self._require_somebody(side)

    # ---- what watchers see ---------------------------------------------------------------------------------------

    def moved(self) -> None:
        """There is something new to see."""
        self._changed = self._moved = True

    def greet(self) -> None:
        """The keys were changed."""
        self.server.greet(self._hello())

    def _hello(self) -> Hello:
        return hello_of(self.sides, chosen_settings(self._params))

    def _trouble(self) -> str:
        return next(filter(None, (side.stage.trouble() for side in self.sides)), "")

    def _show(self, *, at_once: bool = False) -> None:
        """Draw and tell what changed, where somebody watches, and not more often than a screen can show."""
        if not self._changed or not self.server.watchers:
            return
        now = time.monotonic()
        if not at_once and now - self._shown_at < _PICTURE_SECONDS:
            return
        self._changed, self._shown_at = False, now
        if self._moved:
            self._moved = False
            for side in self.sides:
                if side.episode >= 0:
                    side.stage.draw()
        self.server.publish(self._state())

    def _state(self) -> State:
        waits = self.waits or self.awaits_key
        seats = tuple(seat_state(side, waits=waits) for side in self.sides)
        first = seats[0]
        return State(
            steps=self._steps,
            seed=self.seed,
            paused=self.is_paused,
            held=self._is_held,
            speed=self.pace.speed,
            episodes=self._rounds,
            can_undo=self.can_undo,
            seats=seats if len(seats) > 1 else (),
            rounds=tuple(self._told_rounds) if len(seats) > 1 else (),
            **{name: getattr(first, name) for name in _OF_A_SEAT},
        )
