from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mosaic_protocol import paths
from mosaic_protocol.paths import MosaicPaths

RUN_ID = "01K9ZQ3V7X0000000000000000"
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "~",
    "a\0b",
    "a\nb",
    "a\n",
    "-rf",
    ".hidden",
    "a..b",
    "A",
    "ä",
    "x" * 65,
]

names = st.text() | st.from_regex(r"[a-z0-9_.\-/\\]{0,70}", fullmatch=True) | st.sampled_from(HOSTILE)


@settings(max_examples=1500)
@given(names)
@example("ppo_atari")
def test_a_name_becomes_a_single_safe_file_name_or_is_refused(name: str) -> None:
    try:
        checked = paths.checked_name(name)
    except ValueError:
        return
    below = Path("/root_of_data") / checked
    assert checked == name and below.parent == Path("/root_of_data") and below.name == name
    assert ".." not in name and name.isascii() and name.isprintable() and not name.startswith((".", "-", "~"))


@settings(max_examples=1500)
@given(names | st.from_regex(r"[0-9A-Za-z]{25,27}", fullmatch=True))
def test_only_a_ulid_becomes_part_of_a_runs_paths(run_id: str) -> None:
    layout = MosaicPaths(Path("/root_of_data"))
    try:
        found = [
            layout.run_config(run_id),
            layout.worker_config(run_id),
            layout.run(run_id).directory,
            layout.run_logs(run_id),
        ]
    except ValueError:
        return
    assert len(run_id) == 26 and run_id.isascii() and run_id.isalnum()
    assert [path.parent for path in found] == [layout.configs, layout.configs, layout.runs, layout.logs]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a plain name"):
        paths.checked_name(name)
    with pytest.raises(ValueError, match="is not a run id"):
        paths.checked_run_id(name)


def test_a_refusal_does_not_repeat_a_flood_of_input() -> None:
    with pytest.raises(ValueError, match="is not a run id") as refusal:
        paths.checked_run_id("x\n" * 1_000_000)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 200


def test_mosaic_home_moves_the_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    assert MosaicPaths.from_environment().root == tmp_path


def test_a_relative_mosaic_home_does_not_follow_later_changes_of_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOSAIC_HOME", "data")
    root = paths.default_root()
    monkeypatch.chdir("/")
    assert root == tmp_path / "data"


def test_the_layout_touches_no_disk(tmp_path: Path) -> None:
    layout = MosaicPaths(tmp_path)
    run = layout.run(RUN_ID)
    named = [
        layout.registry_db,
        layout.token_file,
        layout.daemon_log,
        run.outbox,
        run.manifest,
        run.checkpoints,
    ]
    assert all(path.is_relative_to(tmp_path) for path in named)
    assert list(tmp_path.iterdir()) == []
