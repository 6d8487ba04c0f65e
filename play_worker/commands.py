"""What watchers want of a session, done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mosaic_protocol.live.key_map import KeyMapError
from mosaic_protocol.live.messages import (
    Act,
    Advise,
    Command,
    End,
    Go,
    HandOver,
    Hold,
    Keys,
    Pause,
    Press,
    Restart,
    SingleStep,
    Speed,
    Tell,
    Undo,
)
from mosaic_worker.errors import UsageError
from play_worker.key_maps import with_changes

if TYPE_CHECKING:
    from play_worker.play import Play
    from play_worker.side import Side


class Commands:
    """Follows one command after the other, in the session's thread."""

    def __init__(self, play: Play) -> None:
        self._play = play

    def follow(self, command: Command) -> None:
        """What cannot be followed is refused in one sentence, and changes nothing."""
        try:
            self._obey(command)
        except UsageError as error:
            self._play.sides[0].problem = str(error)
            self._play.server.refuse(str(error))

    def _obey(self, command: Command) -> None:
        play = self._play
        match command:
            case Hold() | Press() | Act():
                self._hear_person(command, self._side(command.seat))
            case Pause() | Go() | SingleStep():
                play.is_paused = not isinstance(command, Go)
                play.single = isinstance(command, SingleStep)
                play.pace.begin()
            case Speed(times):
                play.pace.change(times)
            case Restart(seed):
                self._restart(seed)
            case HandOver() | Advise():
                self._give_seat(command, self._side(command.seat))
            case Undo(steps):
                play.undo(steps)
            case Keys(changes):
                self._change_keys(changes)
            case Tell():
                raise UsageError("nobody here has a mind that can be told something: this is a session, not a training")
            case End():
                play.ended = True

    def _restart(self, seed: str | int) -> None:
        play = self._play
        for side in play.sides:
            side.seat.human.forget()
        seeds = {"same": play.seed, "next": play.next_seed}
        play.begin_round(seeds[seed] if isinstance(seed, str) else seed)

    def _give_seat(self, command: HandOver | Advise, side: Side) -> None:
        side.problem = ""
        if isinstance(command, HandOver):
            side.seat.hand_over(command)
        else:
            side.seat.advise(command)

    def _side(self, seat: int) -> Side:
        """Counted from 1; 0 is the first that a person has, else the first."""
        sides = self._play.sides
        if not 0 <= seat <= len(sides):
            raise UsageError(f"there is no seat {seat}: this session has {len(sides)}")
        return sides[seat - 1] if seat else next((side for side in sides if side.seat.is_human), sides[0])

    def _change_keys(self, changes: dict[str, object]) -> None:
        try:
            changed = [
                (side, with_changes(side.key_map, changes, side.stage.env.action_space)) for side in self._play.sides
            ]
        except KeyMapError as error:
            raise UsageError(str(error)) from None
        for side, key_map in changed:
            side.change_keys(key_map)
        self._play.greet()

    def _hear_person(self, command: Hold | Press | Act, side: Side) -> None:
        human = side.seat.human
        if not side.seat.is_human:
            if isinstance(command, Hold):
                human.hold(command.keys)  # a person who takes over with a key already down goes on with it
                human.forget()
            elif isinstance(command, Act):
                raise UsageError(f"the {side.seat.actor.name} actor has the seat: hand it over to the person first")
        elif isinstance(command, Hold):
            if not command.keys or self._is_a_move(side):
                human.hold(command.keys)
        elif self._is_a_move(side):
            human.press(command.key) if isinstance(command, Press) else human.act(command.action)

    def _is_a_move(self, side: Side) -> bool:
        """A person is there: the clock may run. After the end of a round a key begins the next one, and does no more
        than that where every key is a move."""
        play = self._play
        side.problem = ""
        begins = all(one.over for one in play.sides) and not play.is_finished
        if begins:
            play.begin_round(play.next_seed)
        if play.awaits_key:
            play.awaits_key = False
            play.pace.begin()
        return not (begins and play.waits)
