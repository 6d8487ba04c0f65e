"""Pages about the algorithms of the CORL worker, one HTML fragment each, named after its script."""

from __future__ import annotations

from pathlib import Path

PAGES = Path(__file__).parent
