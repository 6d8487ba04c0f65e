"""No text of others makes a terminal do anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic_protocol.plain_text import clean_line, one_line, visible

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
OBEYED = set(map(chr, [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x200F, 0x202E, 0x2067, 0x2028]))


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (f"step 1{CLIPBOARD} done", "step 1 done"),
        ("\x1b[31mred\x1b[0m\tblue", "red\tblue"),
        ("10%\r 50%\r100%", "100%"),
        ("an 8-bit one: \x9b2J", "an 8-bit one: 2J"),
        ("a title that never ends: \x1b]0;evil", "a title that never ends: "),
        ("turned \u202egnp.exe", "turned gnp.exe"),
    ],
)
def test_a_printed_line_is_what_a_terminal_would_leave(raw: str, seen: str) -> None:
    assert clean_line(raw) == seen


def test_what_would_be_obeyed_can_be_made_visible_and_stays_json() -> None:
    assert visible(CLIPBOARD) == "\\u001b]52;c;ZXZpbA==\\u0007"
    document = {"name": "a\x9bb\u202ec\x7f"}
    text = visible(json.dumps(document, ensure_ascii=False))
    assert text.isprintable()
    assert json.loads(text) == document


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert not OBEYED & set(clean_line(text))
    assert not OBEYED & set(visible(text))
    assert one_line(text).isprintable()
