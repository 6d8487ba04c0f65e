"""Build the documentation site with mkdocs, without the network; a dead link or a warning fails it.

    python -m tools.build_docs [--site DIR]

Pages keep the places they have in the repository, so that a link which works there works on the site: README.md,
docs/ and benchmarks/ are copied into a folder of their own with every file that they link to. Navigation comes from the
titles of the pages, and the API pages from the packages, so that a new page or module needs no entry anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md")
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)")
SECTIONS = {
    "Start": ("README.md", "docs/user-guide.md"),
    "How to": ("docs/how-to/*.md",),
    "Runbooks": ("docs/runbooks/*.md",),
    "Reference": ("docs/reference/*.md",),
    "API": ("api/*.md",),
    "Results": ("docs/coverage.md", "benchmarks/*.md"),
    "Design": ("docs/architecture.md", "docs/decisions/index.md", "docs/decisions/0*.md", "docs/decisions/template.md"),
    "Project": ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md"),
    "Files": ("*",),
}
"""The navigation: a page stands in the first section with a pattern for it, in the order of the patterns."""
API = {
    "client": ("The Python client", ["gym_gui.services.trainer.client"]),
    "protocol": (
        "What both sides agree on",
        ["mosaic_protocol." + name for name in ("worker_client", "policy_client", "events", "endpoint", "states")],
    ),
}
KIT = ROOT / "mosaic_worker"


class DocsError(Exception):
    """The site cannot be built or has a fault; the text says which."""


# ---- gathering ---------------------------------------------------------------------------------------------------


def gather(target: Path) -> list[str]:
    """Copy all pages, and what they link to, below ``target``; return the pages, relative to it."""
    pages = sorted({path.relative_to(ROOT) for pattern in PAGES for path in ROOT.glob(pattern)})
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        for link in sorted(set(LINK.findall(text))):
            linked = Path(os.path.normpath(ROOT / page.parent / unquote(link)))
            if linked.is_dir():
                text = text.replace(f"]({link})", f"]({link.rstrip('/')}/index.md)")
            _copy(linked, target)
        _write(target / page, for_python_markdown(text))
    api = {**API, **_kit()}
    for name, (title, modules) in api.items():
        text = "\n\n".join([f"# {title}", *(f"::: {module}" for module in modules)])
        _write(target / "api" / f"{name}.md", f"{text}\n")
    return [*map(str, pages), *(f"api/{name}.md" for name in api), *_listings(target, pages)]


def _copy(linked: Path, target: Path) -> None:
    """A file as it is; of a folder a page that lists its files, and these."""
    if not linked.is_relative_to(ROOT) or linked.suffix == ".md":
        return
    if linked.is_file():
        copy = target / linked.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(linked, copy)
    elif linked.is_dir():
        files = [path for path in sorted(linked.iterdir()) if path.is_file() and path.suffix != ".md"]
        for path in files:
            _copy(path, target)
        name = linked.relative_to(ROOT)
        lines = [f"# Files in {name}", "", *(f"- [{path.name}]({path.name})" for path in files)]
        _write(target / name / "index.md", "\n".join(lines) + "\n")


def _listings(target: Path, pages: Sequence[Path]) -> Iterator[str]:
    for path in sorted(target.rglob("index.md")):
        if (name := path.relative_to(target)) not in pages and name.parts[0] != "api":
            yield str(name)


def _kit() -> dict[str, tuple[str, list[str]]]:
    """A page for each sub-package of the kit."""
    names = sorted(path.parent.name for path in KIT.glob("*/__init__.py") if path.parent.name != "tests")
    return {f"kit-{name}": (f"Kit: {name}", [f"{KIT.name}.{name}"]) for name in names}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


_ITEM = re.compile(r"(?:[-*]|\d+\.) +")


def for_python_markdown(text: str) -> str:
    """The same page for Python-Markdown, which wants what belongs to a list item indented by four blanks, and an empty
    line before a list. GitHub's dialect, in which the pages are written, wants neither."""
    lines: list[str] = []
    offset, fenced = 0, False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        item = None if fenced else _ITEM.match(line)
        if item:
            if not offset and lines and lines[-1].strip():
                lines.append("")
            offset = item.end()
        elif not fenced and offset and line.startswith(" " * offset):
            line = "    " + line[offset:]  # noqa: PLW2901
        elif line.strip() and not line.startswith(" "):
            offset = 0
        lines.append(line)
    return "\n".join(lines) + "\n"


# ---- building ----------------------------------------------------------------------------------------------------


def navigation(pages: Sequence[str], source: Path) -> list[dict[str, list[dict[str, str]]]]:
    """The sections with their pages, each under its own title."""
    left, sections = list(pages), []
    for name, patterns in SECTIONS.items():
        found = list(dict.fromkeys(page for pattern in patterns for page in left if fnmatch(page, pattern)))
        left = [page for page in left if page not in found]
        sections.append({name: [{_title(source / page): page} for page in found]})
    return [section for section in sections if all(section.values())]


def _title(page: Path) -> str:
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ").replace("`", "")


_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):(?=<code>)")
"""What docstrings write before a name for other tools; a reader of the page needs only the name."""


def build(site: Path) -> int:
    """Make the site and return the number of its pages. Raises DocsError."""
    with tempfile.TemporaryDirectory(prefix="mosaic-docs-") as folder:
        source = Path(folder) / "pages"
        pages = gather(source)
        config = Path(folder) / "mkdocs.yml"
        settings = {
            "INHERIT": str(ROOT / "mkdocs.yml"),
            "docs_dir": str(source),
            "site_dir": str(site),
            "nav": navigation(pages, source),
            "plugins": {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT)]}}}},
        }
        config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        # Not --quiet: that hides the warnings, and with them what --strict is for.
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith(("WARNING", "ERROR", "Aborted", "Config"))]
        raise DocsError("\n".join(said or done.stderr.splitlines()[-20:]))
    for page in (site / "api").glob("*.html"):
        page.write_text(_ROLE.sub("", page.read_text(encoding="utf-8")), encoding="utf-8")
    if faults := list(faults_of(site)):
        raise DocsError("\n".join(faults))
    return len(pages)


# ---- checking what was built -------------------------------------------------------------------------------------


class _Page(HTMLParser):
    """The places that a page can be linked at, where it links to, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") in {"stylesheet", "icon", "preconnect"}:
            self.loads.add(values["href"])
        elif values.get("src"):
            self.loads.add(values["src"])


def faults_of(site: Path) -> Iterator[str]:
    """Each link that leads nowhere, and each thing that a page would load from the network."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name} loads {one} from the network" for one in sorted(page.loads) if urlsplit(one).netloc)
        for link in sorted(page.links | page.loads):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            linked = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            place = unquote(parts.fragment)
            if not linked.exists():
                yield f"{name} links to {link}, and there is no such file"
            elif place and linked in pages and place not in pages[linked].places:
                yield f"{name} links to {link}, and that page has no such place"


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site and check its links.")
    parser.add_argument("--site", type=Path, default=SITE, help="folder to write")
    site: Path = parser.parse_args(arguments).site.absolute()
    try:
        pages = build(site)
    except DocsError as error:
        print(f"The site has faults; mend them and repeat:\n{error}", file=sys.stderr)
        return 1
    print(f"{pages} pages in {site}. To read them: python3 -m http.server --directory {site}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
