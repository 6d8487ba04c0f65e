"""``mosaic replay``: an episode simulated again, and whether it is the one that was recorded."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import out_file
from gym_gui.cli.errors import ExitCode
from gym_gui.cli.options import Count, json_option, run_argument
from gym_gui.cli.recorded import require_episode, step_source
from gym_gui.cli.session import CliSession, shortest_path
from mosaic_protocol.dialogue import DIALOGUE
from mosaic_protocol.plain_text import visible

if TYPE_CHECKING:
    from gym_gui.services.worker_tools import WorkerTool

_FORMATS = (".mp4", ".gif")


@click.command()
@run_argument
@click.option("--episode", type=Count(least=0), required=True, help="Which one, by its number in `mosaic episodes`.")
@click.option("--step", type=Count(least=0), help="Go no further than this step of the episode, and show it.")
@click.option(
    "--export", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Film it: FILE.mp4 or FILE.gif."
)
@click.option("--force", is_flag=True, help="With --export: also over a file that is there.")
@json_option
@click.pass_obj
def replay(
    session: CliSession, run: str, episode: int, step: int | None, export: Path | None, force: bool, as_json: bool
) -> int:
    """Simulate a recorded episode again and check it.

    The environment begins with the recorded seed and is given the recorded actions; observation, reward and end of
    every step must be what was recorded, to the bit. RUN may also be the folder that `mosaic eval --record` names. Exit
    code 1: they differ, or steps could not be compared. With --step, a language model's step has its prompt and answer.
    """
    from gym_gui.services import recorded_steps

    if export is not None:
        out_file.require_place(export, _FORMATS, force=force, option="--export")
    words = ["--episode", str(episode), "--parent", str(os.getpid())]
    words += ["--step", str(step)] if step is not None else []
    words += ["--export", str(export.absolute())] if export is not None else []
    with step_source(session, run) as source:
        require_episode(source, episode)
        with (
            source.as_folder(episode) as folder,
            recorded_steps.replay(source, session.paths, folder, words) as running,
        ):
            result = _watched(running, quiet=as_json)
    if as_json:
        fmt.echo_json(result)
    else:
        _tell(result)
    return ExitCode.OK if result["verified"] == result["steps"] else ExitCode.FAILED


def _watched(running: WorkerTool, *, quiet: bool) -> dict[str, Any]:
    """The result; on a terminal a line shows how far it is."""
    shows = not quiet and sys.stderr.isatty()
    result: dict[str, Any] = {}
    try:
        for message in running.messages():
            if message.get("at") == "result":
                result = message
            elif shows and message.get("at") == "progress":
                sys.stderr.write(f"\rstep {message['steps']:,} of {message['of']:,}\x1b[K")
                sys.stderr.flush()
    finally:
        if shows:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
    return {name: value for name, value in result.items() if name != "at"}


def _tell(result: dict[str, Any]) -> None:
    click.echo(_headline(result))
    if result.get("step") is not None:
        tell_step(result["step"], result.get("dialogue"))
    steps, verified, difference = result["steps"], result["verified"], result["difference"]
    part = f" (the first of {result['length']:,})" if steps < result["length"] else ""
    click.echo(f"verified {verified:,}/{steps:,} steps{part}")
    for sentence in what_was_compared(result):
        click.echo(fmt.hanging(sentence))
    if difference is not None:
        for line in _why(result):
            click.echo(fmt.hanging(fmt.one_line(line)))
    if "export" in result:
        cut = ", up to the step that differs" if difference is not None else ""
        click.echo(f"{shortest_path(Path(result['export']))}: {fmt.counted(result['frames'], 'frame')}{cut}")


def tell_step(step: dict[str, Any], exchange: dict[str, Any] | None) -> None:
    """What happened, and of a language model what it was asked and answered, to its end."""
    told = dict(step)
    if exchange is not None:
        told["info"] = {name: value for name, value in (step["info"] or {}).items() if name != DIALOGUE} or None
    click.echo(fmt.pairs([(name, fmt.cut(_text(value), 200)) for name, value in told.items()]))
    if exchange is None:
        return
    parts = [(str(role), str(text)) for role, text in exchange["prompt"]]
    parts += [(name, str(exchange[name])) for name in ("reasoning", "response", "note") if exchange.get(name)]
    for name, text in parts:
        lines = "\n".join(f"    {visible(line)}" for line in text.splitlines())
        click.echo(f"  {fmt.one_line(name)}:\n{lines}")
    click.echo(f"  {_cost(exchange)}")


def _cost(exchange: dict[str, Any]) -> str:
    """How the answer was had, in one line."""
    about = "~" if exchange["is_estimated"] else ""
    parts = [exchange["validity"], exchange["rung"], exchange["source"]]
    if exchange["tokens_in"]:
        parts.append(f"{about}{exchange['tokens_in']:,} + {about}{exchange['tokens_out']:,} tokens")
        parts.append(f"{exchange['seconds']:.2f} s")
    return " · ".join(fmt.one_line(str(one)) for one in parts if one)


def what_was_compared(result: dict[str, Any]) -> list[str]:
    """What "verified" leaves open, where something was not recorded."""
    verified, observations, rewards = result["verified"], result["observations"], result["rewards"]
    said = []
    if verified and not observations:
        said.append("Observations were not recorded: rewards and ends were compared.")
    elif observations < verified:
        said.append(f"Observations were recorded of {observations:,} of these steps, and compared; of others, rewards.")
    if rewards < verified:
        said.append(f"Rewards were recorded of {rewards:,} of these steps, and compared; of others, observations.")
    if left := result["checked"] - verified:
        said.append(f"Neither was recorded of {fmt.counted(left, 'step')}: not verified.")
    return said


def _headline(result: dict[str, Any]) -> str:
    total = fmt.MISSING if result["return"] is None else fmt.quantity(result["return"])
    actors = ", ".join(
        f"{fmt.one_line(actor or 'unknown actor')} {count:,}" for actor, count in result["actors"].items()
    )
    ended = fmt.one_line(result["outcome"]) or "not ended"
    about = f"episode {result['episode']} of {fmt.one_line(str(result['env_id']))}, seed {result['seed']}"
    return f"{about}: {fmt.counted(result['length'], 'step')} ({actors}), return {total}, {ended}"


def _why(result: dict[str, Any]) -> list[str]:
    difference = result["difference"]
    number = difference["number"]
    lines = [f"{difference['sentence']}. In the run it is step {number:,}."]
    if not result["repeats_itself"]:
        lines.append("The environment is not deterministic: simulated twice from this seed, it differs from itself.")
        return lines
    changed = result.get("other_versions") or {}
    if changed:
        moved = ", ".join(f"{name} {before or 'none'} → {now or 'none'}" for name, (before, now) in changed.items())
        lines.append(f"The environment repeats itself here, so another version of it was recorded: {moved}.")
    else:
        lines.append(
            "The environment repeats itself here: it was recorded with another version or other settings, "
            "or the recording was changed."
        )
    return lines


def _text(value: Any) -> str:
    return fmt.one_line(value if isinstance(value, str) else str(value))
