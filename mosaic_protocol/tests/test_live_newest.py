"""Lines of a session that wait: the newest state, every hello that still holds, and no more than there is room for."""

from __future__ import annotations

from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import LONGEST_LINE, Hello, Refused, SeatState, State, line_of
from mosaic_protocol.live.newest import MOST_SAID, NewestLines


def line(message: Hello | State | Refused) -> bytes:
    return line_of(message).rstrip(b"\n")


def test_the_newest_state_and_hello_are_kept_and_refusals_up_to_a_number() -> None:
    lines = NewestLines()
    old, new = (Hello(name, "other", KeyMap(), waits=True, fps=1.0, seats=("a", "b")) for name in ("old", "new"))
    refusals = [line(Refused(f"no {number}")) for number in range(MOST_SAID + 3)]
    for told in (line(old), line(State(steps=1)), *refusals, line(new), line(State(steps=2, frames="/one"))):
        lines.put(told)
    assert lines.take() == [line(new), *refusals[3:], line(State(steps=2, frames="/one"))]
    assert lines.take() == [] and list(lines.pictures) == ["/one"]
    lines.put(line(State(frames="/one", seats=(SeatState("a", frames="/one"), SeatState("b")))))
    assert list(lines.pictures) == ["/one", ""]


def test_what_is_not_understood_is_passed_on_and_cannot_fill_the_memory() -> None:
    lines = NewestLines()
    strange = [b"", b"{", b"\xff", b'{"at": "news"}', b'{"at":"state","frames":7}', b"[" * 100_000]
    for told in strange:
        lines.put(told)
    assert lines.take() == strange and lines.pictures == ()
    for letter in b"abc":
        lines.put(bytes([letter]) * (LONGEST_LINE // 2))
    assert [told[:1] for told in lines.take()] == [b"b", b"c"]
