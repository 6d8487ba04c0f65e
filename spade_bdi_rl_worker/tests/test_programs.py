"""Programs in files, and in files that these include: found, bounded, and each mistake with its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.agent.actions import make_actions
from spade_bdi_rl_worker.agent.program import MOST_BYTES, ProgramError, parse_program, read_program

ACTIONS = make_actions()


def labels_of(path: Path) -> list[str]:
    tree = parse_program(read_program(path), str(path), ACTIONS)
    return [plan.annotation.functor for plan in tree.plans if plan.annotation is not None]


def refusal_of(path: Path) -> ProgramError:
    with pytest.raises(ProgramError) as refused:
        parse_program(read_program(path), str(path), ACTIONS)
    return refused.value


def test_what_is_included_stands_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "second.asl").write_text('@second +!b. { include("third.asl") }\n')
    (tmp_path / "deep" / "third.asl").write_text("@third +!c.\n")
    main = tmp_path / "main.asl"
    main.write_text('@first +!a. { include("deep/second.asl") } @last +!d.\n')
    assert labels_of(main) == ["first", "second", "third", "last"]


def test_a_copy_of_shipped_plans_finds_what_they_include(tmp_path: Path) -> None:
    copy = tmp_path / "partner-copy.asl"
    copy.write_text('{ include("learner.asl") }\n')
    assert "explore" in labels_of(copy)
    (tmp_path / "learner.asl").write_text("@mine +!learn.\n")
    assert labels_of(copy) == ["mine"], "one's own comes first"


@pytest.mark.parametrize(
    ("included", "what"),
    [
        ("!go.\n+!go <- § .\n", "{folder}/common.asl:2:9: illegal character '§'"),
        ("!go.\n+!go <- .done\n", "{folder}/common.asl:2:9: "),
        ("!go.\n+!go <- .run_episde.\n", "{folder}/common.asl:2:9: there is no action .run_episde"),
        ('{ include("./main.asl") }', "{folder}/common.asl:1:3: {folder}/main.asl includes itself"),
        ('{ include("common.asl") { include("common.asl") }', "{folder}/common.asl:1:3: write it as"),
    ],
)
def test_a_mistake_in_an_included_file_has_its_place(included: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "common.asl").write_text(included)
    main = tmp_path / "main.asl"
    main.write_text('// mine\n{ include("common.asl") }\n')
    assert str(refusal_of(main)).startswith(what.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pipe.asl", "cannot be read: it is a named pipe"),
        ("zero.asl", "cannot be read: it is a device"),
        ("large.asl", "has more than 1,048,576 bytes"),
        ("latin.asl", "is not text in UTF-8: byte 2 cannot be read"),
        ("missing.asl", "cannot be read: No such file or directory"),
        ("../../../etc/passwd", "ends not in .asl"),
        ("", "ends not in .asl"),
    ],
)
def test_what_is_no_program_is_not_included(name: str, why: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.asl")
    (tmp_path / "zero.asl").symlink_to("/dev/zero")
    with (tmp_path / "large.asl").open("wb") as large:
        large.truncate(MOST_BYTES + 1)
    (tmp_path / "latin.asl").write_bytes(b"//\xe9")
    main = tmp_path / "main.asl"
    main.write_text(f'// mine\n{{ include("{name}") }}\n')
    said = str(refusal_of(main))
    assert said.startswith(f"{main}:2:3: ") and why in said


def test_files_that_include_each_other_without_end_are_refused(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"f{number}.asl").write_text(f'{{ include("f{number + 1}.asl") }}\n' * 2)
    (tmp_path / "f20.asl").write_text("a.\n")
    assert "includes more than 100 files" in str(refusal_of(tmp_path / "f0.asl"))


def test_a_program_that_is_nested_too_deeply_has_a_place_too(tmp_path: Path) -> None:
    main = tmp_path / "main.asl"
    main.write_text("x(" + "[" * 5000 + "]" * 5000 + ").\n")
    assert str(refusal_of(main)) == f"{main}:1:1: it is nested too deeply"


def test_plans_may_be_a_link_that_somebody_named(tmp_path: Path) -> None:
    (tmp_path / "mine.asl").write_text("@mine +!go.\n")
    (tmp_path / "link.asl").symlink_to(tmp_path / "mine.asl")
    assert labels_of(tmp_path / "link.asl") == ["mine"]
    with pytest.raises(UsageError, match=r"gone\.asl cannot be read: No such file"):
        read_program(tmp_path / "gone.asl")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "1:1: there is no plan in it"),
        ("// a thought\nslippery.\n", "1:1: there is no plan in it"),
        ("!go.\n+!go <- .run_episode(explor); !!go.\n", "2:22: .run_episode knows no explor; did you mean"),
        ("!go.\n+!go <- .run_episodes(exploits, 5); !!go.\n", "2:23: .run_episodes knows no exploits"),
        ("!go.\n+!go <- .strategy(gamma, 0.5); !!go.\n", "2:19: .strategy knows no gamma"),
        ("!go.\n+!go <- .send(other, tel, at(1)).\n", "2:22: .send knows no tel"),
    ],
)
def test_what_a_run_would_only_find_out_later_is_said_before(text: str, what: str, tmp_path: Path) -> None:
    main = tmp_path / "main.asl"
    main.write_text(text)
    assert str(refusal_of(main)).startswith(f"{main}:{what}")


def test_a_word_that_is_computed_is_left_to_the_run(tmp_path: Path) -> None:
    main = tmp_path / "main.asl"
    main.write_text("!go(explore).\n@mine +!go(How) <- .run_episode(How); !!go(How).\n")
    assert labels_of(main) == ["mine"]
