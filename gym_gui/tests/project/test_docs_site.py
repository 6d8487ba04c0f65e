"""The documentation site is built without the network and has no dead link; pages say what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import build_docs

ROOT = build_docs.ROOT
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; a warning of mkdocs, a dead link or anything from the network fails it."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    build_docs.build(folder)
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {str(path.relative_to(ROOT)) for pattern in build_docs.PAGES for path in ROOT.glob(pattern)}
    made = {page: page.replace("README.md", "index.md").removesuffix(".md") + ".html" for page in pages}
    assert [page for page, html in made.items() if not (site / html).is_file()] == []


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("api/client.html", ["TrainerClient", "Blocking and thread-safe", "RequestRefusedError"]),
        ("api/protocol.html", ["WorkerSession", "safe_point"]),
        ("api/kit-state.html", ["CheckpointWriter"]),
    ],
)
def test_the_api_pages_have_what_a_worker_or_a_program_calls(site: Path, page: str, words: list[str]) -> None:
    text = (site / page).read_text(encoding="utf-8")
    assert [word for word in words if word not in text] == []


def test_the_kit_has_a_page_for_each_of_its_packages(site: Path) -> None:
    packages = {path.parent.name for path in (ROOT / "mosaic_worker").glob("*/__init__.py")} - {"tests"}
    assert {path.stem.removeprefix("kit-") for path in (site / "api").glob("kit-*.html")} == packages


def page(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def test_a_dead_link_a_missing_place_and_the_network_are_faults(tmp_path: Path) -> None:
    page(
        tmp_path,
        "good.html",
        '<h1 id="here">x</h1><a href="https://example.org/">out</a><a href="good.html#here">x</a>',
    )
    page(tmp_path, "gone.html", '<a href="missing.html">x</a>')
    page(tmp_path, "place.html", '<a href="good.html#there">x</a>')
    page(tmp_path, "net.html", '<script src="https://cdn.example/x.js"></script>')
    assert list(build_docs.faults_of(tmp_path)) == [
        "gone.html links to missing.html, and there is no such file",
        "net.html loads https://cdn.example/x.js from the network",
        "place.html links to good.html#there, and that page has no such place",
    ]


def test_what_belongs_to_a_list_item_is_indented_for_the_site() -> None:
    text = "words\n- item\n  more\n\n  | a |\n\n1. one\n   ```\n   code\n   ```\nend\n```\n- no list\n```\n"
    wanted = "words\n\n- item\n    more\n\n    | a |\n\n1. one\n    ```\n    code\n    ```\nend\n```\n- no list\n```\n"
    assert build_docs.for_python_markdown(text) == wanted


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_record_is_complete_short_and_in_the_index(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    parts = ["## Situation", "## Decision", "## Consequences", "## Alternatives turned down", "Held by: "]
    assert text.startswith(f"# {record.name[:4]}. ")
    assert [part for part in parts if part not in text] == []
    assert len(text.split()) < 400
    assert f"]({record.name})" in (record.parent / "index.md").read_text(encoding="utf-8")


def test_tests_that_the_documentation_names_exist() -> None:
    pages = [ROOT / "SECURITY.md", *DECISIONS]
    named = {name for path in pages for name in re.findall(r"`(test_\w+\.py)`", path.read_text(encoding="utf-8"))}
    there = {
        path.name
        for package in ("gym_gui", "mosaic_protocol", "mosaic_worker", "cleanrl_worker")
        for path in (ROOT / package).rglob("test_*.py")
    }
    assert named
    assert named - there == set()
