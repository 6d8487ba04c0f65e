"""The code that a host is given: a wheel of what this MOSAIC and its workers are, named by its contents.

It is made from the files that are in use here, be they a checkout or an installation, so both sides run the same.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import packaging

from gym_gui.services.hosts.building import TOOLS
from gym_gui.services.trainer import VERSION
from mosaic_protocol.worker_manifest import discover
from mosaic_protocol.worker_packages import shared_folders

_ROOT = Path(__file__).resolve().parents[3]
_OURS = ("mosaic_protocol", "mosaic_host", "mosaic_worker", "gym_gui")
_LEFT_OUT = frozenset({"tests", "__pycache__", ".git", "node_modules"})
_DISTRIBUTION = "mosaic-rl"
_ANCIENT = (1980, 1, 1, 0, 0, 0)
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Code:
    """A wheel, and the hash that names it."""

    sha256: str
    wheel: bytes


def pack() -> Code:
    """The code that is in use now. The same files make the same wheel. Blocks; reads every file."""
    files = dict(sorted(_files()))
    info = f"{_DISTRIBUTION.replace('-', '_')}-{VERSION}.dist-info"
    files |= {f"{info}/{name}": text.encode() for name, text in _metadata().items()}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    files[f"{info}/RECORD"] = record.encode()
    if sum(map(len, files.values())) > _MOST_BYTES:
        raise ValueError(f"MOSAIC and its workers are larger than {_MOST_BYTES} bytes: they are not sent to a host")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _ANCIENT), content, zipfile.ZIP_DEFLATED)
    return Code(hashlib.sha256(packed.getvalue()).hexdigest(), packed.getvalue())


def _files() -> Iterator[tuple[str, bytes]]:
    """Name in the wheel, content."""
    folders = {name: _ROOT / name for name in _OURS}
    folders |= {name: root / name for name, root in shared_folders().items()}
    folders |= {one.package_dir.name: one.package_dir for one in discover().workers.values()}
    folders["requirements"] = _ROOT / "requirements"  # bundles, where environments are built
    folders[f"{TOOLS}/packaging"] = Path(packaging.__file__).parent  # reads them there before anything is installed
    for name, folder in folders.items():
        for file in folder.rglob("*"):
            below = file.relative_to(folder)
            if file.is_file() and not file.is_symlink() and not _is_left_out(below):
                yield f"{name}/{below.as_posix()}", file.read_bytes()


def _is_left_out(below: Path) -> bool:
    return bool(_LEFT_OUT.intersection(below.parts)) or below.suffix == ".pyc"


def _metadata() -> dict[str, str]:
    """What the installed MOSAIC says of itself: requirements and entry points."""
    told = {"METADATA": f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {VERSION}\n"}
    with suppress(importlib.metadata.PackageNotFoundError):
        installed = importlib.metadata.distribution(_DISTRIBUTION)
        for name in ("METADATA", "entry_points.txt"):
            if text := installed.read_text(name):
                told[name] = text
    told["WHEEL"] = "Wheel-Version: 1.0\nGenerator: mosaic\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return told
