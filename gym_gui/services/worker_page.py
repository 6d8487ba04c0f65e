"""The page that a worker brings about itself or one of its algorithms: Markdown in its folder."""

from __future__ import annotations

from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.worker_manifest import WorkerManifest

MOST_BYTES = 256 * 1024


def read_page(manifest: WorkerManifest, algo: str = "") -> str:
    """``docs/ALGO.md`` in the worker's folder, else its ``README.md``; "" when there is neither. Raises OSError for one
    that cannot be read: larger than :data:`MOST_BYTES`, or no regular file."""
    named = [manifest.package_dir / "docs" / f"{algo}.md"] if algo in manifest.algorithms else []
    for file in (*named, manifest.package_dir / "README.md"):
        try:
            return read_regular(file, MOST_BYTES, follow=True).decode(errors="replace")
        except FileNotFoundError:
            continue
    return ""
