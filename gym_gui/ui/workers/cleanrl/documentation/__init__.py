"""Pages about the algorithms of the CleanRL worker, one HTML fragment each, named after its script."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

PAGES = Path(__file__).parent
STEPS = "<!-- steps by family -->"
"""Where a page shows the rows of ``timesteps.toml`` that are about its algorithm."""
BASES = {
    "practice": "common practice of the field",
    "measured": "measured here",
    "estimate": "our estimate, not measured",
}


def with_steps(page: str, algo: str) -> str:
    """The page with the steps to plan for by family in their place."""
    return page.replace(STEPS, _table(algo)) if STEPS in page else page


def _table(algo: str) -> str:
    rows = tomllib.loads((PAGES / "timesteps.toml").read_text(encoding="utf-8"))["rows"]
    cells = [
        (row["family"], row["steps"], BASES[row["basis"]], row.get("remark", ""))
        for row in rows
        if algo in row["algorithms"]
    ]
    head = ("family", "steps", "figure", "remarks")
    lines = ["".join(f"<th>{one}</th>" for one in head)]
    lines += ["".join(f"<td>{escape(one, quote=False)}</td>" for one in row) for row in cells]
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"
