"""``storage_profiles.yaml`` is read strictly: what is not understood is refused with a place and the nearest name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gym_gui.services.storage.profile import DEFAULT_TEXT, MOST_BYTES, Profile, ProfileError, loaded, read_profile
from mosaic_protocol.paths import MosaicPaths


def rule(text: str) -> str:
    return f"use: d\nprofiles:\n  d:\n    rules:\n      - {text}\n"


def test_without_a_file_the_default_holds_and_does_nothing_by_itself(tmp_path: Path) -> None:
    name, profile = loaded(MosaicPaths(tmp_path))
    assert name == "default" and not profile.automatic and not profile.cap_gb
    assert profile.after_archive == "trash" and all(one.trash_after_days is None for one in profile.rules)


def test_the_reference_shows_the_default() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "storage-profiles.md"
    assert DEFAULT_TEXT in page.read_text()
    fields = {*Profile.model_fields, "runs", "archive_after_days", "trash_after_days", "keep_days"}
    assert [one for one in fields if f"`{one}`" not in page.read_text()] == []


def test_one_of_several_profiles_is_chosen_by_name(tmp_path: Path) -> None:
    text = "use: a\nprofiles: {a: {}, b: {cap_gb: 5}}"
    (tmp_path / "storage_profiles.yaml").write_text(text)
    assert loaded(MosaicPaths(tmp_path))[0] == "a"
    assert loaded(MosaicPaths(tmp_path), "b")[1].cap_gb == 5
    assert read_profile(text)[1].archive_folder(MosaicPaths(tmp_path)) == tmp_path / "archives"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("use: d\nprofiles: {d: {automatik: true}}", "automatik: is not a known field; did you mean 'automatic'?"),
        ("use: defalt\nprofiles: {default: {}}", "no profile 'defalt' that `use` names; did you mean 'default'?"),
        (rule("{runs: '', archive_after_day: 3}"), "did you mean 'archive_after_days'?"),
        (rule("{runs: '', keep_days: {vidoes: 3}}"), "did you mean 'videos'?"),
        (rule("{runs: 'state=fialed'}"), "did you mean 'failed'?"),
        (rule("{runs: '', keep_days: {logs: -1}}"), "must be at least 0"),
        (rule("{runs: '', keep_days: {logs: yes}}"), "must be a number"),
        (rule("{runs: '', keep_days: {logs: .nan}}"), "must be a finite number"),
        (rule("{runs: '', keep_days: {logs: 1000000000}}"), "must be at most"),
        (rule("{archive_after_days: 3}"), "runs: is required"),
        ("use: d\nprofiles: {d: {compression: zstd}}", "did you mean 'zst'?"),
        ("use: d\nprofiles: {d: {archives: ''}}", "too short"),
        ("use: d\nprofiles: {}", "too short"),
        ("use: d\nuse: e\nprofiles: {d: {}}", "line 2: 'use' stands there twice"),
        ("a: &x [1]\nb: *x", "line 2: anchors and aliases are not read here"),
        ("a: !!python/object/apply:os.system ['true']", "line 1: could not determine a constructor"),
        ("[" * 5000, "nests too deeply"),
        ("a: [1", "line 1"),
        ("use: \x00", "not YAML"),
        ("", "must be an object with fields"),
        ("- 1", "must be an object with fields"),
        ("a: " + "9" * 5000, "not YAML"),
        ("when: 2026-99-99", "not YAML"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, said: str) -> None:
    with pytest.raises(ProfileError) as refused:
        read_profile(text)
    assert said in str(refused.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    for content, said in ((b"use: \xff", "not text in UTF-8"), (b"#" * (MOST_BYTES + 1), "larger than")):
        paths.storage_profiles.write_bytes(content)
        with pytest.raises(ProfileError, match=said):
            loaded(paths)
    paths.storage_profiles.unlink()
    os.mkfifo(paths.storage_profiles)
    with pytest.raises(ProfileError, match="named pipe"):
        loaded(paths)
