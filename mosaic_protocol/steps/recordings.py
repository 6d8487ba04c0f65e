"""Recorded steps in a folder of their own: what a recorded evaluation leaves, and what a replay is handed.

The folder holds ``recording.json``, which says what was played, and the journal of the steps. Reading one needs no
daemon.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader, OutboxWriter, oldest_seq
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.steps.open_chunk import STREAM, path_of, read_left
from mosaic_protocol.whole_files import write_whole

DESCRIPTION = "recording.json"
VERSION = 1
EVALUATION, RUN = "evaluation", "run"
"""What recorded: the value of ``kind``. An evaluation has ``algo`` and ``args``, with which its worker makes the
environment again; a run has its worker's ``settings``. Either has ``worker`` and ``env_id``."""
COPIED_STEPS = "copied_steps"
"""Of a copy: how many steps it was made of, so that a reader knows whether it is whole."""
MOST_COPIED_STEPS = 500_000
"""For a run to learn from: reading them takes seconds, and one that made more has learned more than its steps teach."""
ENVIRONMENT = "env_spec"
"""Of a copy: the specification of the environment, as the worker that recorded makes it; a text of Gymnasium's JSON."""
_MOST_BYTES = 16 * 2**20
_AT_ONCE = 64


class RecordingError(ValueError):
    """A folder that is no recording, or one that this version cannot read."""


@dataclass(frozen=True)
class Recording:
    """A folder of recorded steps. Reading raises :class:`RecordingError`, writing OSError where the disk does."""

    folder: Path
    about: Mapping[str, Any]

    @classmethod
    def at(cls, folder: Path) -> Recording:
        try:
            about = json.loads(read_regular(folder / DESCRIPTION, _MOST_BYTES))
        except (ValueError, RecursionError) as error:
            raise RecordingError(f"{folder / DESCRIPTION} cannot be read: it is not JSON") from error
        except FileNotFoundError:
            raise RecordingError(f"{folder} holds no recording: it has no {DESCRIPTION}") from None
        except OSError as error:
            raise _unreadable(folder, error) from error
        if not isinstance(about, dict) or not isinstance(about.get("v"), int):
            raise RecordingError(f"{folder / DESCRIPTION} does not describe a recording")
        if about["v"] > VERSION:
            raise RecordingError(f"{folder} was recorded by a newer version of MOSAIC: update this one")
        return cls(folder, about)

    @classmethod
    def new(cls, folder: Path, about: Mapping[str, Any]) -> Recording:
        """Make the folder and its description; the steps follow."""
        folder.mkdir(parents=True, exist_ok=True)
        described = {"v": VERSION, **about}
        write_whole(folder / DESCRIPTION, json.dumps(described, indent=1) + "\n")
        return cls(folder, described)

    def add(self, records: Iterator[events.StepChunk]) -> None:
        """Take chunks that were recorded elsewhere."""
        journal = OutboxWriter(self.folder, STREAM)
        try:
            for record in records:
                journal.append(record)
                if journal.held:
                    raise OSError(28, "No space left on device", str(self.folder))
        finally:
            journal.close()

    def chunks(self, episode: int | None = None) -> Iterator[events.StepChunk]:
        """The chunks in order, those with steps of one episode alone if its number is given. What a process that was
        killed left in its open chunk comes last. Raises :class:`RecordingError`, and for damaged records
        :class:`~mosaic_protocol.steps.chunk.ChunkError` or :class:`~mosaic_protocol.events.RecordError`."""
        try:
            yield from self._chunks(episode)
        except OSError as error:
            raise _unreadable(self.folder, error) from error

    def _chunks(self, episode: int | None) -> Iterator[events.StepChunk]:
        reader = OutboxReader(self.folder, STREAM, after_seq=oldest_seq(self.folder, STREAM) - 1)
        try:
            while lines := reader.read(_AT_ONCE):
                for line in lines:
                    record = events.decode(line)
                    if isinstance(record, events.StepChunk) and _holds(record, episode):
                        yield record
            last_seq = reader.next_seq - 1
        finally:
            reader.close()
        left = read_left(path_of(self.folder, STREAM))
        if left is not None and left.record is not None and left.place.seq > last_seq and _holds(left.record, episode):
            yield left.record

    def episodes(self) -> list[events.EpisodeSummary]:
        """Those that ended, in the order in which they did. An end that was undone does not stand."""
        found: dict[int, events.EpisodeSummary] = {}
        for record in self.chunks():
            for number in [*record.undone, *(ended.episode for ended in record.episodes)]:
                found.pop(number, None)
            found |= {ended.episode: ended.summary(record.t) for ended in record.episodes}
        return list(found.values())


def _unreadable(folder: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{error.filename or folder} cannot be read: {error.strerror or error}")


def is_recording(folder: Path) -> bool:
    """Whether a person may mean this folder."""
    return (folder / DESCRIPTION).is_file()


def _holds(record: events.StepChunk, episode: int | None) -> bool:
    """That an episode was abandoned may be noted in the chunk after its last step; a reader of one does without."""
    return episode is None or record.first_episode <= episode <= record.last_episode
