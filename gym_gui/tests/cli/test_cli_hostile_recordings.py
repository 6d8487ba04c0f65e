"""Recordings whose checksums are right and whose content is absurd: every command says so in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.command_line import Answer, CommandLine
from gym_gui.tests.support.made_chunks import made_chunk
from mosaic_protocol.events import EndedEpisode, StepChunk
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.columns import Column, StepSchema
from mosaic_protocol.steps.recordings import Recording

NOTHING = (0,)
"""The shape of a column without bytes: it needs none in the body."""


def with_entry(key: str, value: Any) -> StepChunk:
    begun = heap.packed(0, chunks.BEGIN, [0, "", 7, None])
    return made_chunk(0, 3, begun + heap.packed(0, key, value))


def with_columns(*columns: Column) -> StepChunk:
    return made_chunk(0, 3, schema=StepSchema((*chunks.FIXED_COLUMNS, *columns)))


ABSURD: dict[str, Callable[[], StepChunk]] = {
    "a leaf that is a number": lambda: with_entry(chunks.LEAF, 5),
    "a leaf that belongs nowhere": lambda: with_entry(chunks.LEAF, [[], 1]),
    "a leaf in a list": lambda: with_entry(chunks.LEAF, [["observation", ["x"]], 1]),
    "a final observation that is a number": lambda: with_entry(chunks.FINAL, 5),
    "a final observation of three parts": lambda: with_entry(chunks.FINAL, [[["x"], 1, 2]]),
    "an end that is a dictionary": lambda: with_entry(chunks.END, {"episode": 0}),
    "a column without a name": lambda: with_columns(Column((), "i8", NOTHING)),
    "a column twice": lambda: with_columns(*[Column(("action",), "i8", NOTHING)] * 2),
    "steps before the first": lambda: made_chunk(-3, 3),
}
ABSURD_FOR_ARRAYS: dict[str, Callable[[], StepChunk]] = {
    "a hundred axes": lambda: with_columns(Column(("action",), "i8", (0,) * 100)),
    "axes beyond any memory": lambda: with_columns(Column(("action",), "i8", (0, 2**62, 2**62))),
}
"""Their steps can be listed: no array is made for that."""


@pytest.fixture
def mosaic(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def recording(folder: Path, *records: StepChunk) -> Path:
    about = {"kind": "run", "worker": "toy", "env_id": "CartPole-v1", "settings": {"params": {}}}
    Recording.new(folder, about).add(iter(records))
    return folder


def require_a_sentence(answer: Answer) -> None:
    assert answer.code in (1, 2) and answer.err.startswith("mosaic: "), answer
    assert "should not have happened" not in answer.err and "ended with status" not in answer.err, answer.err


@pytest.mark.parametrize("what", [*ABSURD, *ABSURD_FOR_ARRAYS])
def test_absurd_steps_end_every_command_in_a_sentence(what: str, mosaic: CommandLine, tmp_path: Path) -> None:
    folder = recording(tmp_path / "absurd", {**ABSURD, **ABSURD_FOR_ARRAYS}[what]())
    require_a_sentence(mosaic("datasets", "from-run", str(folder), "it"))
    if what in ABSURD and "end" not in what:  # the ends of episodes are not looked at when steps are listed
        require_a_sentence(mosaic("steps", str(folder)))


def test_a_replay_of_absurd_steps_says_what_is_wrong(mosaic: CommandLine, tmp_path: Path) -> None:
    """One of each place where steps are read: the replay has a process of its own."""
    for what in ("a leaf that belongs nowhere", "a final observation of three parts", "a column without a name"):
        folder = recording(tmp_path / what.replace(" ", "-"), ABSURD[what]())
        require_a_sentence(mosaic("replay", str(folder), "--episode", "0"))


def _pipe(journal: Path) -> None:
    os.mkfifo(journal)


def _endless(journal: Path) -> None:
    journal.symlink_to("/dev/zero")


def _holes(journal: Path) -> None:
    with journal.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize("put", [_pipe, _endless, _holes, Path.mkdir])
@pytest.mark.parametrize("command", [("steps",), ("episodes",), ("replay", "--episode", "0")])
def test_a_journal_that_is_no_file_of_records_is_named(
    put: Callable[[Path], None], command: tuple[str, ...], mosaic: CommandLine, tmp_path: Path
) -> None:
    folder = recording(tmp_path / "strange")
    (journal,) = folder.glob("steps-*.jsonl")
    journal.unlink()
    put(journal)
    answer = mosaic(command[0], str(folder), *command[1:])
    require_a_sentence(answer)
    assert f"{journal} cannot be read: it " in answer.err


def test_no_word_of_a_recording_steers_the_terminal(mosaic: CommandLine, tmp_path: Path) -> None:
    ended = EndedEpisode(0, "\x1b[31magent", 3, 1.0, "\x1b]0;title\x07terminated")
    folder = recording(tmp_path / "loud", made_chunk(0, 3, episodes=[ended]))
    shown = mosaic("episodes", str(folder))
    assert shown.code == 0 and "terminated" in shown.out and not {"\x1b", "\x07"} & set(shown.out)


@pytest.mark.parametrize("number", ["²", "9" * 30, "9" * 5000, "-1", "٣"])
def test_what_numbers_no_episode_is_refused(number: str, mosaic: CommandLine, tmp_path: Path) -> None:
    folder = recording(tmp_path / "plain", made_chunk(0, 3))
    answer = mosaic("datasets", "from-run", str(folder), "it", "--only", f"episode={number}")
    require_a_sentence(answer)
    assert "takes the number of an episode" in answer.err
