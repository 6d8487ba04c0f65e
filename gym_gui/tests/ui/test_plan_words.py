"""AgentSpeak in the plan editor without a window: colours of words, places of mistakes, and whose files are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_gui.ui.own_files.files import OwnFileError, OwnFiles
from gym_gui.ui.own_files.mistake import Mistake
from gym_gui.ui.workers.spade_bdi.asl_words import mistake_in, words_of


def coloured(line: str, in_comment: bool = False) -> list[tuple[str, str]]:
    words, _ = words_of(line, in_comment)
    return [(word.kind, line[word.start : word.start + word.length]) for word in words]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "+!episode : confidence(C) & C >= 0.6 <- .run_episode(cached); !!episode.",
            [
                *(("trigger", "+!"), ("operator", ":"), ("variable", "C"), ("operator", "&"), ("variable", "C")),
                *(("number", "0.6"), ("operator", "<-"), ("action", ".run_episode"), ("operator", ";"), ("goal", "!!")),
            ],
        ),
        ("@repair  // what failed", [("annotation", "@repair"), ("comment", "// what failed")]),
        (
            '-slippery <- .print("a // b", X1).',
            [("trigger", "-"), ("operator", "<-"), ("action", ".print"), ("string", '"a // b"'), ("variable", "X1")],
        ),
        (
            "  +?known(_) : not at(3)",
            [("trigger", "+?"), ("variable", "_"), ("operator", ":"), ("keyword", "not"), ("number", "3")],
        ),
        ("noted(trueness).", []),
        ("a /* b */ + C /* d", [("comment", "/* b */"), ("variable", "C"), ("comment", "/* d")]),
        ('.print("open', [("action", ".print"), ("string", '"open')]),
    ],
)
def test_every_kind_of_word_has_its_colour(line: str, expected: list[tuple[str, str]]) -> None:
    assert coloured(line) == expected


def test_a_comment_goes_on_over_lines() -> None:
    words, goes_on = words_of("!learn. /* from here")
    assert goes_on and words[-1].kind == "comment"
    assert words_of("still X", True) == (words_of("still X", True)[0], True) and coloured("still X", True) == [
        ("comment", "still X")
    ]
    assert coloured("to here */ X", True) == [("comment", "to here */"), ("variable", "X")] and words_of("", True) == (
        [],
        True,
    )


def test_a_refusal_tells_where_the_mistake_is() -> None:
    found = mistake_in("/home/a b/mine.asl:12:5: there is no plan for !go/0. Did you mean 'goal'? (and 1 more)")
    assert found == Mistake(
        "/home/a b/mine.asl", 12, 5, "there is no plan for !go/0. Did you mean 'goal'? (and 1 more)"
    )
    assert mistake_in("prosody is not installed. Install it (`apt install prosody`)") is None


@pytest.fixture
def files(tmp_path: Path) -> OwnFiles:
    (tmp_path / "worker" / "plans").mkdir(parents=True)
    (tmp_path / "worker" / "plans" / "learner.asl").write_text("!learn.\n")
    return OwnFiles.of(tmp_path / "worker" / "plans", tmp_path / "home" / "plans", ".asl")


def test_plans_of_the_worker_are_copied_and_never_changed(files: OwnFiles) -> None:
    shipped = files.file_of("learner")
    assert files.names == ("learner",) and files.read(shipped) == "!learn.\n"
    first = files.save(shipped, "!rest.\n", "!learn.\n")
    assert files.read(shipped) == "!learn.\n" and (first.name, files.read(first)) == ("learner-copy.asl", "!rest.\n")
    assert files.save(shipped, "!sleep.\n", "!learn.\n").name == "learner-copy-2.asl"
    link = files.own / "link.asl"
    link.symlink_to(shipped)
    assert files.save(link, "!hack.\n", "!learn.\n") != link and files.read(shipped) == "!learn.\n"


def test_own_plans_are_written_in_place_unless_somebody_else_changed_them(files: OwnFiles, tmp_path: Path) -> None:
    own = tmp_path / "mine.asl"
    own.write_text("!one.\n")
    assert files.save(own, "!two.\n", "!one.\n") == own and own.read_text() == "!two.\n"
    own.chmod(0o640)
    (tmp_path / "link.asl").symlink_to(own)
    assert files.save(tmp_path / "link.asl", "!through.\n", "!two.\n") == tmp_path / "link.asl"
    assert own.read_text() == "!through.\n" and own.stat().st_mode & 0o777 == 0o640, "a link stays one, a mode too"
    own.write_text("!other.\n")
    saved = files.save(own, "!three.\n", "!two.\n")
    assert saved.name == "mine-copy.asl" and own.read_text() == "!other.\n" and files.saved() == [saved]
    (files.own / ".check-1.asl").touch()
    assert files.saved() == [saved] and not [one for one in files.own.iterdir() if one.suffix == ".tmp"]


def test_what_is_no_text_is_said(files: OwnFiles, tmp_path: Path) -> None:
    (tmp_path / "bytes.asl").write_bytes(b"\xff\xfe")
    with pytest.raises(OwnFileError, match="is not text in UTF-8: byte 0"):
        files.read(tmp_path / "bytes.asl")
    with pytest.raises(OwnFileError, match="cannot be read: No such file"):
        files.read(tmp_path / "nowhere.asl")
    with pytest.raises(OwnFileError, match="cannot be written"):
        files.save(Path("/proc/nowhere/x.asl"), "", "")
