"""HDF5 from strangers: opened only after a look at everything in it.

An HDF5 file can point at other files (links, external storage, virtual datasets), name plug-ins to be loaded as
filters, and promise terabytes that a few bytes unpack to. None of that has a place in a dataset, so a file with any of
it is refused as a whole, before a value is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mosaic_protocol.datasets.errors import DatasetsError
from mosaic_protocol.regular_files import open_regular

MOST_OBJECTS = 5_000_000
"""Links in one file, which is how many groups and columns it can have."""
MOST_CHUNK_BYTES = 256 * 2**20
"""That must be unpacked at once."""
_SMALL = 64 * 2**20
"""Bytes of a column that is never suspicious, however well it was compressed."""
_BEST_COMPRESSION = 1100
"""Deflate reaches 1,032; where less is stored, something was never written."""
DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError)
"""What h5py raises for a file that is not as it should be."""
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_FILTERS = frozenset(
    {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32, h5py.h5z.FILTER_LZF}
)


@contextmanager
def opened(path: Path, *, follow: bool = False) -> Iterator[h5py.File]:
    """The file, whose structure was looked at. Raises DatasetsError in one sentence, which names no dataset.

    ``follow``: somebody named the file, and it may be a link.
    """
    try:
        with open_regular(path, follow=follow) as stream:
            _require_hdf5(stream.read(len(_SIGNATURE)), path)
            with _as_hdf5(stream, path) as file:
                _require_harmless(file, path)
                yield file
    except OSError as error:
        raise DatasetsError(f"{path.name} cannot be read: {_reason(error)}") from error


@contextmanager
def _as_hdf5(stream: Any, path: Path) -> Iterator[h5py.File]:
    # Through the descriptor that was checked: the name may mean another file by now.
    try:
        file = h5py.File(f"/proc/self/fd/{stream.fileno()}", "r")
    except DAMAGED as error:
        raise unreadable(path, error) from error
    with file:
        yield file


def _require_hdf5(start: bytes, path: Path) -> None:
    if start == _SIGNATURE:
        return
    if start.startswith(_PICKLES):
        raise DatasetsError(
            f"{path.name} is a pickle, which can run any program when it is read: refused; save the arrays as HDF5"
        )
    if not start:
        raise DatasetsError(f"{path.name} is empty")
    raise DatasetsError(f"{path.name} is no HDF5 file")


def unreadable(path: Path, error: Exception) -> DatasetsError:
    """What to say of a file that h5py stumbled over."""
    return DatasetsError(f"{path.name} cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    said = " ".join(str(error).split())
    if "truncated" in said or "eof" in said.lower():
        return "it is truncated: its end is missing"
    strerror = getattr(error, "strerror", None)
    return strerror if strerror and "Unable" not in strerror else f"it is damaged ({said[:120]})"


def _require_harmless(file: h5py.File, path: Path) -> None:
    """Look at every link once, without following any. Raises DatasetsError."""
    seen = 0

    def look(name: bytes, link: Any) -> str | None:
        nonlocal seen
        seen += 1
        if link.type != h5py.h5l.TYPE_HARD:
            leads = "another file" if link.type == h5py.h5l.TYPE_EXTERNAL else "another place"
            return f"has a link to {leads} at {_shown(name.decode(errors='replace'))}: it is refused"
        return None if seen <= MOST_OBJECTS else f"holds more than {MOST_OBJECTS:,} groups and columns"

    try:
        wrong = file.id.links.visit(look, info=True)
    except DAMAGED as error:
        raise unreadable(path, error) from error
    if wrong is not None:
        raise DatasetsError(f"{path.name} {wrong}")


def column(group: h5py.Group, name: str, path: Path) -> h5py.Dataset:
    """One column, looked at before a value is read. Raises DatasetsError."""
    try:
        found = h5py.h5o.open(group.id, name.encode())
        if not isinstance(found, h5py.h5d.DatasetID):
            raise DatasetsError(f"{path.name}: {_shown(name)} is a group, where a column is needed")
        checked = h5py.Dataset(found)
        _require_sound(checked, path)
    except DAMAGED as error:
        raise unreadable(path, error) from error
    return checked


def values(column: h5py.Dataset, first: int = 0, behind: int | None = None) -> NDArray[Any]:
    """Some of its rows, or all of them, which is quicker."""
    if column.dtype.kind == "O" or first or (behind is not None and behind < len(column)):
        return np.asarray(column[first:behind])
    found = np.empty(column.shape, column.dtype)
    if found.size:
        column.id.read(h5py.h5s.ALL, h5py.h5s.ALL, found)
    return found


def _require_sound(column: h5py.Dataset, path: Path) -> None:
    where = f"{path.name} is refused: {_shown(column.name)}"
    properties = column.id.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL or properties.get_external_count():
        raise DatasetsError(f"{where} keeps its values in another file")
    if column.dtype.kind not in "biufSO" or (
        column.dtype.kind == "O" and h5py.check_string_dtype(column.dtype) is None
    ):
        raise DatasetsError(f"{where} holds neither numbers nor text")
    used = {properties.get_filter(number)[0] for number in range(properties.get_nfilters())}
    if used - _FILTERS:
        raise DatasetsError(f"{where} is compressed in a way that needs a plug-in; gzip and lzf are read")
    if column.chunks and math.prod(column.chunks) * column.dtype.itemsize > MOST_CHUNK_BYTES:
        raise DatasetsError(f"{where} has to be unpacked in pieces of more than {MOST_CHUNK_BYTES // 2**20} MiB")
    size = logical_bytes(column)
    if size > _SMALL and size > column.id.get_storage_size() * _BEST_COMPRESSION:
        raise DatasetsError(f"{where} claims {size / 1e9:,.1f} GB, of which the file holds next to nothing")


def logical_bytes(column: h5py.Dataset) -> int:
    """What the values take unpacked; text counts by its pointers."""
    return int(math.prod(column.shape or ()) * column.dtype.itemsize)


def _shown(name: str | None) -> str:
    return ascii((name or "")[:80])[1:-1]
