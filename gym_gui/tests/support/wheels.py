"""Tiny packages for pip, made on the spot: one file with a version, and what it requires."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(directory: Path, name: str, version: str, requires: str = "") -> Path:
    """``requires`` are lines of METADATA, such as ``Requires-Dist: other``."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    file = directory / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(path, text)
    return file


def make_index(directory: Path, *wheels: tuple[str, str, str]) -> str:
    """The address of a package index with these wheels: name, version, lines of METADATA."""
    for name, version, requires in wheels:
        shelf = directory / name
        shelf.mkdir(parents=True, exist_ok=True)
        make_wheel(shelf, name, version, requires)
        links = (f'<a href="{wheel.name}">{wheel.name}</a>' for wheel in shelf.glob("*.whl"))
        (shelf / "index.html").write_text(f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>")
    return directory.as_uri()
