"""The outbox against the simplest thing that behaves the same: a list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mosaic_protocol import events, outbox
from mosaic_protocol.outbox import OutboxReader, OutboxWriter

READERS = 3


class OutboxMachine(RuleBasedStateMachine):
    """Appends, crashes, reads, rewinds and discards in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="outbox-"))
        self.model: list[str] = []
        self.discarded = 0
        self.writer = self.opened()
        self.readers = [OutboxReader(self.directory, "s") for _ in range(READERS)]

    def opened(self) -> OutboxWriter:
        return OutboxWriter(self.directory, "s", segment_bytes=300)

    @rule(texts=st.lists(st.text(max_size=60), min_size=1, max_size=5))
    def append(self, texts: list[str]) -> None:
        for text in texts:
            self.model.append(text)
            assert self.writer.append(events.LogRecord(code="L", message=text)) == len(self.model)

    @rule(torn=st.binary(max_size=400).filter(lambda torn: b"\n" not in torn))
    def crash(self, torn: bytes) -> None:
        self.writer.close()
        newest = max(self.directory.iterdir())
        with newest.open("ab") as file:
            file.write(torn)
        self.writer = self.opened()

    @rule(index=st.integers(0, READERS - 1), torn=st.binary(min_size=1, max_size=50), count=st.integers(1, 9))
    def crash_while_a_reader_looks(self, index: int, torn: bytes, count: int) -> None:
        self.writer.close()
        with max(self.directory.iterdir()).open("ab") as file:
            file.write(torn.replace(b"\n", b" "))
        self.read(index, count)
        self.writer = self.opened()

    @rule(index=st.integers(0, READERS - 1), count=st.integers(1, 9))
    def read(self, index: int, count: int) -> None:
        reader = self.readers[index]
        first = reader.next_seq
        lines = [events.decode(line) for line in reader.read(count)]
        assert [line.seq for line in lines] == list(range(first, first + len(lines)))
        messages = [line.message for line in lines if isinstance(line, events.LogRecord)]
        assert messages == self.model[first - 1 : first - 1 + count]
        assert reader.next_seq == first + len(lines)

    @precondition(lambda self: self.model)
    @rule(index=st.integers(0, READERS - 1), data=st.data())
    def rewind(self, index: int, data: st.DataObject) -> None:
        self.readers[index].rewind(data.draw(st.integers(self.discarded, len(self.model))))

    @rule()
    def discard_what_all_have_read(self) -> None:
        self.discarded = max(self.discarded, min(reader.next_seq for reader in self.readers) - 1)
        outbox.discard_through(self.directory, "s", self.discarded)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.writer.last_seq == len(self.model) and self.writer.held == 0

    def teardown(self) -> None:
        self.writer.close()
        for reader in self.readers:
            reader.close()
        shutil.rmtree(self.directory)


TestTheOutboxBehavesLikeAList = OutboxMachine.TestCase
TestTheOutboxBehavesLikeAList.settings = hypothesis.settings(max_examples=150, stateful_step_count=30)
