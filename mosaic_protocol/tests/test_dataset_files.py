"""HDF5 that leads elsewhere, needs plug-ins or promises more than it holds is refused before a value is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest

from mosaic_protocol.dataset_files import data_file, safe_hdf5
from mosaic_protocol.datasets import DatasetsError


def plain(file: h5py.File, *without: str) -> None:
    columns = {"observations": np.zeros((9, 2), "f4"), "actions": np.zeros((9, 1), "f4"), "rewards": np.zeros(9)}
    for name, values in {**columns, "terminals": np.ones(9, bool)}.items():
        if name not in without:
            file[name] = values


def soft_link(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file["rewards"] = h5py.SoftLink("/observations")


def external_link(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file["rewards"] = h5py.ExternalLink(str(folder / "other.hdf5"), "/secret")


def external_storage(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    (folder / "secret").write_bytes(bytes(72))
    file.create_dataset("rewards", (9,), "f8", external=[(str(folder / "secret"), 0, 72)])


def virtual(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    layout = h5py.VirtualLayout((9,), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.hdf5"), "secret", (9,))
    file.create_virtual_dataset("rewards", layout)


def references(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file.create_dataset("rewards", (9,), h5py.ref_dtype)


def absurd(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file.create_dataset("rewards", (10**12,), "f8", chunks=(1024,))


def large_chunks(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file.create_dataset("rewards", (10**9,), "f4", chunks=(10**8,), compression="gzip")


def bomb(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    column = file.create_dataset("rewards", (2**33,), "u1", chunks=(2**22,), compression="gzip", compression_opts=9)
    column[: 2**22] = 0


def a_group(file: h5py.File, folder: Path) -> None:
    plain(file, "rewards")
    file.create_group("rewards")


HOSTILE: list[tuple[Callable[[h5py.File, Path], None], str]] = [
    (soft_link, "has a link to another place at rewards: it is refused"),
    (external_link, "has a link to another file at rewards: it is refused"),
    (external_storage, "/rewards keeps its values in another file"),
    (virtual, "/rewards keeps its values in another file"),
    (references, "/rewards holds neither numbers nor text"),
    (absurd, "/rewards claims 8,000.0 GB, of which the file holds next to nothing"),
    (large_chunks, "/rewards has to be unpacked in pieces of more than 256 MiB"),
    (bomb, "/rewards claims 8.6 GB, of which the file holds next to nothing"),
    (a_group, "rewards is a group, where a column is needed"),
]


@pytest.mark.parametrize(("make", "sentence"), HOSTILE, ids=[make.__name__ for make, _ in HOSTILE])
def test_a_hostile_file_is_refused_before_a_value_is_read(
    make: Callable[[h5py.File, Path], None], sentence: str, tmp_path: Path
) -> None:
    with h5py.File(tmp_path / "other.hdf5", "w") as other:
        other["secret"] = np.arange(9.0)
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        make(file, tmp_path)
    with pytest.raises(DatasetsError) as raised, data_file.opened(tmp_path / "data.hdf5", "d4rl") as found:
        found.read(0, 9)
    assert sentence in str(raised.value) and "\n" not in str(raised.value)


def test_a_filter_that_needs_a_plug_in_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        plain(file, "rewards")
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((9,))
        properties.set_filter(32_015, h5py.h5z.FLAG_OPTIONAL, (3,))
        space = h5py.h5s.create_simple((9,))
        h5py.h5d.create(file.id, b"rewards", h5py.h5t.NATIVE_DOUBLE, space, properties)
    with pytest.raises(DatasetsError, match="needs a plug-in"), data_file.opened(tmp_path / "data.hdf5", "d4rl"):
        pass


def test_a_link_in_place_of_the_file_is_followed_only_when_a_person_named_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "real.hdf5", "w") as file:
        plain(file)
    (tmp_path / "data.hdf5").symlink_to("real.hdf5")
    with pytest.raises(DatasetsError, match="it is a link"), safe_hdf5.opened(tmp_path / "data.hdf5"):
        pass
    with safe_hdf5.opened(tmp_path / "data.hdf5", follow=True) as file:
        assert "rewards" in file


@pytest.mark.parametrize("seed", range(60))
def test_damage_anywhere_is_a_sentence_or_harmless(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        plain(file)
    content = bytearray(path.read_bytes())
    draw = np.random.default_rng(seed)
    for place in draw.integers(8, min(len(content), 2500), 6):
        content[place] = draw.integers(256)
    path.write_bytes(content)
    with suppress(DatasetsError), data_file.opened(path, "d4rl") as found:
        found.read(0, found.steps)
