from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic_protocol import events
from mosaic_protocol.steps.columns import Column, StepSchema

SAMPLES: list[events.Record] = [
    events.RunLifecycleEvent(event=events.RUN_FAILED, sentence="exited with status 1", step=12, stdout_tail="a\nb"),
    events.MetricRow(step=3, values={"charts/SPS": 1200.0, "losses/value_loss": None}),
    events.StepChunk(
        first_step=512,
        count=2,
        first_episode=3,
        last_episode=4,
        schema=StepSchema((Column(("episode",), "i8"), Column(("observation", "place", 0), "f4", (2, 3)))),
        heap_bytes=5,
        raw_bytes=69,
        crc=2**32 - 1,
        body=b"\x00\xff" * 20,
        episodes=[events.EndedEpisode(3, "blue", 7, None, "truncated", str(2**100), 500)],
    ),
    events.EpisodeSummary(episode=4, length=9, total_reward=None, seed=1, outcome="solved", info={"k": [1]}),
    events.ArtifactRecord(name="last", path="checkpoints/last.safetensors", type="checkpoint", step=5),
    events.LogRecord(code="LOG705", message="refused", level="WARNING", fields={"path": "artifacts"}),
]


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was_written(record: events.Record) -> None:
    record.seq, record.t = 7, 1234.5
    assert events.decode(events.encode(record)) == record


def test_every_kind_of_record_is_sampled_here() -> None:
    assert {type(record) for record in SAMPLES} == set(events.Record.__args__)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_becomes_null(value: float) -> None:
    line = events.encode(events.MetricRow(step=1, values={"loss": value}))
    assert json.loads(line)["values"] == {"loss": None}
    assert events.decode(line) == events.MetricRow(step=1, values={"loss": None})


def test_a_return_that_is_not_finite_can_be_read_back() -> None:
    episode = events.decode(events.encode(events.EpisodeSummary(episode=0, length=1, total_reward=math.inf)))
    assert isinstance(episode, events.EpisodeSummary) and episode.total_reward is None


def test_a_single_step_is_no_record_of_a_journal() -> None:
    with pytest.raises(events.RecordError, match="'step'"):
        events.decode(b'{"kind":"step","episode":0,"step":0,"seq":1}')


def test_a_line_is_one_line_whatever_the_text() -> None:
    line = events.encode(events.RunLifecycleEvent(event="x", stdout_tail="a\nb\r\n\u2028c\0"))
    assert b"\n" not in line and b"\r" not in line


def test_a_record_of_a_newer_version_is_refused_with_a_hint() -> None:
    with pytest.raises(events.RecordError, match="version 2 is newer than 1: update the trainer daemon"):
        events.decode(b'{"kind":"lifecycle","event":"run_started","v":2}')


def test_fields_that_a_newer_worker_adds_are_ignored() -> None:
    record = events.decode(b'{"kind":"lifecycle","event":"run_started","mood":"good"}')
    assert record == events.RunLifecycleEvent(event="run_started")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'{"event":"run_started"}',
        b'{"kind":"gossip","event":"x"}',
        b'{"kind":"lifecycle","event":5}',
        b'{"kind":"metric","step":"1","values":{}}',
        b'{"kind":"lifecycle","event":"\xff"}',
        b'{"kind":"lifecycle","event":"x"} trailing',
        b'{"kind":"lifecycle","event":"x","detail":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)  # fmt: skip
def test_what_is_not_a_record_is_refused_as_such(line: bytes) -> None:
    with pytest.raises(events.RecordError):
        events.decode(line)


@settings(max_examples=1000)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_nothing_else_happens(line: bytes) -> None:
    with pytest.raises(events.RecordError):
        events.decode(line)


def finite_json() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
    return st.recursive(
        leaves.filter(lambda value: not (isinstance(value, float) and math.isinf(value))),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )


@settings(max_examples=500)
@given(st.dictionaries(st.text(), finite_json(), max_size=4), st.text())
def test_whatever_a_worker_puts_into_detail_comes_back(detail: dict[str, Any], sentence: str) -> None:
    record = events.RunLifecycleEvent(event="run_paused", sentence=sentence, detail=detail)
    assert events.decode(events.encode(record)) == record


def test_closing_events_are_lifecycle_events() -> None:
    assert events.CLOSING_EVENTS < events.LIFECYCLE_EVENTS
