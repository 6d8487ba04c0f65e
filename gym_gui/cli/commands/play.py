"""``mosaic play`` and ``mosaic watch``: a live session in a terminal, recorded like any run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gym_gui.cli import candidates, run_view
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode, code_for_outcome
from gym_gui.cli.launch import submitted
from gym_gui.cli.options import Count
from gym_gui.cli.run_plan import flags_for, plan_of
from gym_gui.cli.script_choice import workers_here
from gym_gui.cli.session import CliSession, passing_notice, program, run_id_for
from gym_gui.services.run_words import state_word

if TYPE_CHECKING:
    from gym_gui.cli.live.view import LiveView, Shown
    from gym_gui.services.checkpoints.entry import CheckpointEntry
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.play_sessions import Seated, SessionWish
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.live.client import LiveClient
    from mosaic_protocol.live.messages import HandOver, State
    from mosaic_protocol.proto import trainer_pb2 as pb

_END_SECONDS = 15.0
_AWAY_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_LARGEST_ENV_SEED = 2**31 - 1
F = TypeVar("F", bound=Callable[..., Any])


def _session_options(function: F) -> F:
    """The options of both commands."""
    for option in (
        click.option(
            "--show",
            type=click.Choice(["auto", "text", "blocks", "none"]),
            default="auto",
            show_default=True,
            help="Characters, half-block pictures, or neither.",
        ),
        click.option("--run-name", metavar="NAME", help="What to call the run.  [default: play-ENV-sSEED, numbered]"),
        click.option("--speed", type=float, default=1.0, show_default=True, help="Times as fast; 0 as fast as it can."),
        click.option("--episodes", type=Count(0), default=0, help="End after so many.  [default: when you do]"),
        click.option(
            "--seed",
            type=Count(0, _LARGEST_ENV_SEED),
            default=1,
            show_default=True,
            help="Seed of the first episode; the next ones count on.",
        ),
    ):
        function = option(function)
    return function


@click.command(
    context_settings={"ignore_unknown_options": True},
    options_metavar="--env-id E | --from-run RUN [OPTIONS]",
    epilog="Flags that are not listed here are settings of the game: --map 8x8 --no-slippery --gravity -5. "
    "`mosaic flags play` lists them.",
)
@click.argument("game_flags", metavar="[GAME SETTINGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--env-id", metavar="E", help="What to play.", shell_complete=candidates.environments)
@click.option("--from-run", metavar="RUN", help="Take over in an episode of this run.", shell_complete=candidates.runs)
@click.option("--episode", type=Count(0), default=0, show_default=True, help="With --from-run: which episode.")
@click.option("--step", type=Count(0), default=0, show_default=True, help="With --from-run: at which step.")
@click.option(
    "--actor",
    type=click.Choice(["human", "policy", "random"]),
    default="human",
    show_default=True,
    help="Who plays first.",
)
@click.option(
    "--checkpoint",
    metavar="C",
    help="A policy that says what it would do, and that Tab hands over to.",
    shell_complete=candidates.checkpoints,
)
@click.option("--seats", metavar="S", help="Several side by side on the same seeds: human,policy:CHECKPOINT,random")
@_session_options
@click.pass_obj
def play(
    session: CliSession,
    game_flags: tuple[str, ...],
    env_id: str | None,
    from_run: str | None,
    episode: int,
    step: int,
    actor: Seated,
    checkpoint: str | None,
    seats: str | None,
    seed: int,
    episodes: int,
    speed: float,
    run_name: str | None,
    show: Shown,
) -> int:
    """Play an environment in the terminal.

    Arrow keys and the keys that are shown play; Tab hands the seat to a policy or to chance and takes it back;
    Backspace undoes a step; q ends the session. Every step is recorded: `mosaic steps` and `mosaic episodes` show them.
    With --from-run the session begins in a recorded episode, at the step that you name, in the very state that it had
    there.
    """
    from gym_gui.services.play_sessions import SessionWish

    flags = ["--episodes", str(episodes), "--speed", str(speed), *game_flags]
    flags += ["--seats", _with_paths(session, seats)] if seats else []
    if from_run is not None:
        if env_id is not None:
            raise CliError("give --env-id or --from-run, not both: the run says what was played", ExitCode.REFUSED)
        wish = _taken_over(session, from_run, episode, step, (actor, checkpoint or ""))
        return _play(session, wish, flags, run_name, show)
    if env_id is None:
        raise CliError("--env-id is missing: try `mosaic play --env-id FrozenLake-v1`", ExitCode.REFUSED)
    return _play(session, SessionWish(env_id, seed, actor, checkpoint or ""), flags, run_name, show)


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, required=True, shell_complete=candidates.checkpoints)
@click.option("--env-id", metavar="E", help="Another environment with the same spaces.")
@click.option("--sampled", is_flag=True, help="Actions drawn as in training, not the preferred ones.")
@_session_options
@click.pass_obj
def watch(
    session: CliSession,
    checkpoints: tuple[str, ...],
    env_id: str | None,
    sampled: bool,
    seed: int,
    episodes: int,
    speed: float,
    run_name: str | None,
    show: Shown,
) -> int:
    """Watch a checkpoint play, and take over with Tab.

    It is a session as `mosaic play` makes one, with the policy in the seat; every step is recorded. Several
    checkpoints play side by side, on the same seeds and in lock-step. A run that trains is shown as it trains; RUN@last
    lets its newest checkpoint play.
    """
    from gym_gui.services.play_sessions import SessionWish
    from gym_gui.services.trained_worlds import game_of

    if len(checkpoints) == 1 and (training := _training(session, checkpoints[0])) is not None:
        return _watch_training(*training, show)
    entries = [_whole(session, checkpoint) for checkpoint in checkpoints]
    flags = ["--episodes", str(episodes), "--speed", str(speed)]
    flags += ["--no-deterministic"] if sampled else []
    if len(entries) > 1:
        flags += ["--seats", ",".join(f"policy:{entry.path}" for entry in entries)]
    game = game_of(entries[0]) if env_id in (None, entries[0].env_id) else {}
    wish = SessionWish(env_id or entries[0].env_id, seed, "policy", str(entries[0].path), game)
    return _play(session, wish, flags, run_name, show)


def _training(session: CliSession, word: str) -> tuple[pb.Run, LiveClient] | None:
    """The run that a word means and its live channel, if it trains now and can be watched."""
    from gym_gui.services.trainer.client import ClientError
    from mosaic_protocol.live.client import SessionAwayError

    if "@" in word or "/" in word:
        return None
    try:
        with session.client() as client:
            run = client.run(run_id_for(client, word))
        return None if run_view.is_over(run) else (run, _joined(session, run))
    except (ClientError, CliError, SessionAwayError):
        return None  # no run is called so, it cannot be watched, or nobody knows: a checkpoint may be meant


def _joined(session: CliSession, run: pb.Run) -> LiveClient:
    """The live channel of a run, whose session has said hello. Raises SessionAwayError."""
    from gym_gui.services.live_connection import join_session

    client = join_session(session.paths, run.run_id)
    try:
        client.wait_for_hello()
    except BaseException:
        client.close()
        raise
    return client


def _watch_training(run: pb.Run, live: LiveClient, show: Shown) -> int:
    from gym_gui.cli.live.terminal import EndedBySignal, whole_screen
    from gym_gui.cli.live.training import TrainingView
    from mosaic_protocol.live.client import SessionAwayError

    with closing(live):
        _require_terminal("`mosaic follow` says how a run trains without one")
        if not live.wait_for_hello().is_training:
            sentence = "this run is a session that somebody plays: it is shown where it was started"
            raise CliError(sentence, ExitCode.REFUSED)
        try:
            with whole_screen(sys.stdin.fileno(), sys.stdout.fileno()) as write:
                TrainingView(live, run_view.called(run), show).run(sys.stdin.fileno(), write)
        except SessionAwayError as error:
            click.echo(f"{run_view.called(run)}: {error}.")
        except (EndedBySignal, KeyboardInterrupt):
            raise CliError("interrupted; the run goes on", ExitCode.INTERRUPTED) from None
    return ExitCode.OK


def _require_terminal(advice: str) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError(f"this needs a terminal: {advice}", ExitCode.REFUSED)


def _whole(session: CliSession, checkpoint: str) -> CheckpointEntry:
    from gym_gui.services.checkpoints.errors import UnknownCheckpointError
    from gym_gui.services.checkpoints.registry import TrainingRegistry
    from gym_gui.services.checkpoints.use import require_whole

    registry = TrainingRegistry(session.paths)
    try:
        entry = registry.find(checkpoint)
    except UnknownCheckpointError as error:
        raise _of_a_run_without_any(session, registry, checkpoint) or error from None
    require_whole(entry)
    return entry


def _of_a_run_without_any(session: CliSession, registry: TrainingRegistry, checkpoint: str) -> CliError | None:
    """Why a checkpoint is not there, when its run is and has none; None for any other mistake."""
    from gym_gui.services.checkpoints.errors import UnknownCheckpointError
    from gym_gui.services.trainer.client import ClientError

    try:
        with session.client() as client:
            run = client.run(run_id_for(client, checkpoint.partition("@")[0]))
    except (ClientError, CliError):
        return None
    try:
        if registry.of_run(run.run_id):
            return None
    except UnknownCheckpointError:
        pass
    called, word = run_view.called(run), state_word(run)
    if run_view.is_over(run):
        return CliError(f"{called} has no checkpoint, and is over ({word})", ExitCode.NO_SUCH_RUN)
    how = f"`{program()} watch {run_view.short_id(run.run_id)}` shows it as soon as it trains"
    return CliError(f"{called} is {word} and has no checkpoint yet: {how}", ExitCode.NO_SUCH_RUN)


def _with_paths(session: CliSession, seats: str) -> str:
    """Checkpoints as people name them become the paths that the session takes."""
    found = []
    for one in seats.split(","):
        actor, _, checkpoint = one.strip().partition(":")
        found.append(f"policy:{_whole(session, checkpoint).path}" if actor == "policy" and checkpoint else one.strip())
    return ",".join(found)


def _taken_over(session: CliSession, run: str, episode: int, step: int, seated: tuple[Seated, str]) -> SessionWish:
    from gym_gui.cli.recorded import step_source
    from gym_gui.services.replay.take_over import TakeOverError, policy_of_then, taken_over

    actor, checkpoint = seated
    with step_source(session, run) as source:
        try:
            checkpoint = checkpoint or policy_of_then(source, episode, step)
            return taken_over(source, session.paths, episode, step, actor, checkpoint)
        except TakeOverError as error:
            raise CliError(str(error), ExitCode.REFUSED) from error


def _play(session: CliSession, wish: SessionWish, flags: list[str], run_name: str | None, show: Shown) -> int:
    from gym_gui.cli.live.terminal import EndedBySignal, quiet_keyboard
    from gym_gui.services.play_sessions import NoPlayWorkerError, handed_over_to, play_worker_of

    _require_terminal("`mosaic train play` records a session without one")
    try:
        worker = play_worker_of(workers_here().workers.values())
    except NoPlayWorkerError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    wish = replace(wish, params={**wish.params, **flags_for(worker, flags)}, run_name=run_name or wish.run_name)
    plan = plan_of(worker, wish.request(worker), is_named=run_name is not None)
    try:
        with quiet_keyboard(sys.stdin.fileno()):
            run, placed = submitted(session, plan)
            params = placed.worker_config.get("params", {})
            try:
                last = _shown(session, run, handed_over_to(params), show)
            except BaseException:
                _end_after_failure(session, run)
                raise
            return _tell(session, run, last)
    except EndedBySignal:
        raise CliError("interrupted; the session was ended", ExitCode.INTERRUPTED) from None


def _shown(session: CliSession, run: pb.Run, other: HandOver, show: Shown) -> State:
    """The session on the screen, to its end; its last state. It is joined again when the way to it broke."""
    from gym_gui.cli.live.terminal import EndedBySignal, whole_screen
    from gym_gui.cli.live.view import LiveView
    from mosaic_protocol.live.client import SessionAwayError, WayBrokenError

    last: State | None = None
    while True:
        try:
            live = _connected(session, run)
        except CliError:
            if last is None:
                raise
            return last  # it ended meanwhile
        with closing(live) as client:
            view = LiveView(client, other, show)
            try:
                with whole_screen(sys.stdin.fileno(), sys.stdout.fileno()) as write:
                    view.run(sys.stdin.fileno(), write)
            except WayBrokenError as error:
                last = client.state
                click.echo(f"{error}. Joining it again…", err=True)
                _await_daemon(session, run)
            except SessionAwayError:
                return client.state
            except (EndedBySignal, KeyboardInterrupt):
                _end(view)
                raise CliError("interrupted; the session was ended", ExitCode.INTERRUPTED) from None


def _end(view: LiveView) -> None:
    from mosaic_protocol.live.client import SessionAwayError

    try:
        view.end(_END_SECONDS)
    except SessionAwayError:
        return


def _connected(session: CliSession, run: pb.Run) -> LiveClient:
    """Wait until the session listens. Raises CliError when its run ended first."""
    from mosaic_protocol.live.client import SessionAwayError

    with session.client() as client, passing_notice("waiting for the session to start (Ctrl-C cancels it)…"):
        while True:
            try:
                return _joined(session, run)
            except SessionAwayError:
                now = client.run(run.run_id)
                if run_view.is_over(now):
                    sentence = now.reason or "the session ended before it began"
                    raise CliError(sentence, code_for_outcome(now.outcome)) from None
                time.sleep(_LOOK_SECONDS)


def _await_daemon(session: CliSession, run: pb.Run) -> None:
    """Of a run on another machine the daemon is not started here. Raises CliError when it does not come back."""
    deadline = time.monotonic() + _AWAY_SECONDS
    while not _can_be_asked_for(session, run):
        if time.monotonic() > deadline:
            sentence = f"the trainer daemon did not come back within {_AWAY_SECONDS:.0f} s; the session goes on there"
            raise CliError(sentence, ExitCode.DAEMON_AWAY)
        time.sleep(_LOOK_SECONDS)


def _can_be_asked_for(session: CliSession, run: pb.Run) -> bool:
    """Whether a daemon that knows the run answers, or can be started."""
    from gym_gui.services.live_connection import is_on_this_machine

    return is_on_this_machine(session.paths, run.run_id) or session.daemon_runs()


def _end_after_failure(session: CliSession, run: pb.Run) -> None:
    """Nobody can see the session any more: it is not left behind."""
    from gym_gui.services.trainer.client import ClientError

    if not _can_be_asked_for(session, run):
        return
    try:
        with session.client() as client:
            if not run_view.is_over(client.run(run.run_id)):
                client.cancel(run.run_id, "the terminal of the session was closed")
    except (ClientError, CliError):
        return  # `mosaic runs` shows it


def _tell(session: CliSession, run: pb.Run, last: State) -> int:
    with session.client() as client:
        ended = _ended(client, run.run_id)
    if run_view.is_over(ended) and ended.outcome != "completed":
        raise CliError(ended.reason or f"the session {ended.outcome}", code_for_outcome(ended.outcome))
    played = f"{fmt.counted(last.episodes, 'episode')}, {fmt.counted(last.steps, 'step')}"
    best = f", best return {fmt.quantity(last.best)}" if last.best is not None else ""
    click.echo(f"{run_view.called(ended)}: {played}{best if not last.seats else ''}.")
    for line in _table_of_rounds(last):
        click.echo(line)
    click.echo(
        f"Recorded: `{program()} steps {run_view.short_id(run.run_id)}` shows the last 20 steps, `--tail N` more."
    )
    return ExitCode.OK


def _table_of_rounds(last: State) -> list[str]:
    """The returns of several seats, round by round."""
    if not last.rounds:
        return []
    rows = [["SEED", *(seat.name for seat in last.seats)]]
    rows += [
        [str(one.seed), *("–" if total is None else fmt.quantity(total) for total in one.totals)] for one in last.rounds
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _ended(client: TrainerClient, run_id: str) -> pb.Run:
    deadline = time.monotonic() + _END_SECONDS
    run = client.run(run_id)
    while not run_view.is_over(run) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        run = client.run(run_id)
    return run
