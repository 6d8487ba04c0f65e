"""Datasets out of datasets: several as one, one as several. Whole episodes, every step once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.services.datasets.making import drafted, finish, made, require_h5py
from mosaic_protocol.datasets import DATA, DatasetEntry, DatasetRegistry, DatasetsError
from mosaic_protocol.datasets.manifest import EPISODES, FLAT
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mosaic_protocol.dataset_files.data_file import DataFile

Progress = Callable[[int, int], None]


def merge(
    names: Sequence[str], into: str, paths: MosaicPaths, progress: Progress = lambda rows, of: None
) -> DatasetEntry:
    """Make a dataset of all episodes of others. Raises DatasetsError."""
    require_h5py()
    entries = [_whole(name, paths) for name in names]
    if len(entries) < 2:
        raise DatasetsError("a merge takes two datasets or more")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DatasetsError(f"{twice[0]!r} is named twice: a merge takes every step once")
    _require_alike(entries)
    total = sum(entry.manifest.steps for entry in entries)
    with drafted(into, paths) as draft:
        done = 0
        with closing(_Writer(draft / DATA, entries)) as out:
            for entry in entries:
                for rows in out.take(entry, None):
                    done += rows
                    progress(done, total)
        source = {"kind": "merge", "of": [_named(entry) for entry in entries]}
        finish(draft, {**_shared(entries), "name": into, "source": source, **out.told()})
    return made(into, paths)


@dataclass(frozen=True)
class Share:
    """A part of a split: what it is called behind the dataset's name, and how much of it it takes."""

    name: str
    fraction: float

    @classmethod
    def parse_all(cls, text: str) -> list[Share]:
        """``train:0.9,test:0.1``. Raises DatasetsError."""
        shares = []
        for word in text.split(","):
            name, colon, number = word.strip().partition(":")
            try:
                share = cls(name, float(number))
            except ValueError:
                colon = ""
            if not colon or not name or not 0 < share.fraction <= 1:
                raise DatasetsError(f"fractions are written train:0.9,test:0.1, got {text[:60]!r}")
            shares.append(share)
        if len({share.name for share in shares}) < len(shares):
            raise DatasetsError(f"two parts of {text[:60]!r} have the same name")
        if sum(share.fraction for share in shares) > 1 + 1e-9:
            raise DatasetsError(f"the fractions of {text[:60]!r} are more than 1 together")
        return shares


def split(
    name: str, shares: Sequence[Share], paths: MosaicPaths, seed: int = 1, progress: Progress = lambda rows, of: None
) -> list[DatasetEntry]:
    """Make a dataset ``NAME-SHARE`` of each part; the same seed draws the same episodes. Raises DatasetsError.

    The parts appear one after the other; where one cannot be made, those before it stay.
    """
    require_h5py()
    import numpy as np

    entry = _whole(name, paths)
    order = np.random.default_rng(seed).permutation(entry.manifest.episodes)
    edges = np.round(np.cumsum([0.0, *(share.fraction for share in shares)]) * len(order)).astype(int)
    parts = [np.sort(order[low:high]) for low, high in pairwise(edges)]
    for share, part in zip(shares, parts, strict=True):
        DatasetRegistry(paths).new_folder(f"{name}-{share.name}")
        if not len(part):
            raise DatasetsError(
                f"{100 * share.fraction:g} % of the {len(order)} episodes of {name!r} is less than one: "
                f"{share.name!r} would be empty"
            )
    found: list[DatasetEntry] = []
    total = int(_lengths(entry)[np.concatenate(parts)].sum())

    def on(rows: int) -> None:
        progress(sum(one.manifest.steps for one in found) + rows, total)

    for share, part in zip(shares, parts, strict=True):
        told = {"fraction": share.fraction, "seed": seed}
        found.append(_part(entry, f"{name}-{share.name}", part, told, paths, on))
    return found


def _part(
    entry: DatasetEntry,
    name: str,
    numbers: NDArray[np.int64],
    told: dict[str, Any],
    paths: MosaicPaths,
    progress: Callable[[int], None],
) -> DatasetEntry:
    with drafted(name, paths) as draft:
        with closing(_Writer(draft / DATA, [entry])) as out:
            done = 0
            for rows in out.take(entry, numbers):
                done += rows
                progress(done)
        source = {"kind": "split", "of": _named(entry), **told}
        finish(draft, {**_shared([entry]), "name": name, "source": source, **out.told()})
    return made(name, paths)


def _whole(name: str, paths: MosaicPaths) -> DatasetEntry:
    entry = DatasetRegistry(paths).find(name)
    entry.require_whole()
    return entry


def _lengths(entry: DatasetEntry) -> NDArray[np.int64]:
    """Steps of each episode."""
    import numpy as np

    from mosaic_protocol.dataset_files import data_file

    with data_file.opened(entry.data, entry.manifest.layout) as file:
        return np.diff(file.starts)


def _named(entry: DatasetEntry) -> dict[str, Any]:
    return {"name": entry.name, "sha256": entry.manifest.sha256, "source": entry.manifest.source}


def _shared(entries: Sequence[DatasetEntry]) -> dict[str, Any]:
    """The fields of a manifest that are those of the first."""
    names = ["env_id", "env_spec", "versions", "max_episode_steps", "observation_space", "action_space", "references"]
    names += ["observation_space_from", "action_space_from", "spaces_note"]
    first = entries[0].manifest
    left_out: dict[str, int] = {}
    for entry in entries:
        for why, count in entry.manifest.left_out.items():
            left_out[why] = left_out.get(why, 0) + count
    return {name: getattr(first, name) for name in names} | {"left_out": left_out}


def _require_alike(entries: Sequence[DatasetEntry]) -> None:
    from mosaic_protocol.dataset_files import spaces

    first = entries[0]
    for entry in entries[1:]:
        for what in ("observation_space", "action_space"):
            ours, theirs = (spaces.parsed(getattr(one.manifest, what)) for one in (first, entry))
            if spaces.shape_of(ours) != spaces.shape_of(theirs):
                spoken = what.replace("_", " ")
                raise DatasetsError(f"{entry.name!r} has another {spoken} than {first.name!r}: they cannot be merged")
        ids = first.manifest.env_id, entry.manifest.env_id
        if all(ids) and ids[0] != ids[1]:
            raise DatasetsError(f"{first.name!r} is of {ids[0]} and {entry.name!r} of {ids[1]}: they cannot be merged")


class _Writer:
    """Takes episodes of datasets in either layout."""

    def __init__(self, path: Path, entries: Sequence[DatasetEntry]) -> None:
        """For episodes of these: recorded ones stay so when there are no others, and columns get what each step led to
        unless none of them has it."""
        from gym_gui.services.datasets.episode_file import EpisodeFile
        from gym_gui.services.datasets.flat_writer import FlatWriter

        self._flat = any(entry.manifest.layout == FLAT for entry in entries)
        self._with_next = any(_has_next(entry) for entry in entries)
        self._out: Any = FlatWriter(path, _kinds(entries)) if self._flat else EpisodeFile(path)
        self._actors: dict[str, int] = {}

    def told(self) -> dict[str, Any]:
        return {"layout": FLAT if self._flat else EPISODES, "actors": self._actors}

    def take(self, entry: DatasetEntry, numbers: Iterable[int] | None) -> Iterator[int]:
        """Copy episodes, all or some; the steps of each."""
        from mosaic_protocol.dataset_files import data_file

        with data_file.opened(entry.data, entry.manifest.layout) as file:
            wanted = range(len(file.starts) - 1) if numbers is None else numbers
            for number in wanted:
                actors = file.actors(int(number)) or _one_actor(entry, file, int(number))
                rows = self._add(file, int(number), actors)
                yield rows
                for actor in actors[:rows]:
                    self._actors[actor] = self._actors.get(actor, 0) + 1

    def _add(self, file: DataFile, number: int, actors: list[str]) -> int:
        from gym_gui.services.datasets.episode_file import EpisodeArrays
        from mosaic_protocol.steps.recorded_episodes import FormError

        if self._flat:
            columns = flat_columns(file, number, actors, with_next=self._with_next)
            self._out.append(columns)
            return len(columns["rewards"])
        try:
            self._out.add_arrays(EpisodeArrays.of(file, number, actors))
        except FormError as error:
            raise DatasetsError(f"the datasets do not fit each other: {error}") from error
        return len(actors)

    def close(self) -> None:
        self._out.close()


def _kinds(entries: Sequence[DatasetEntry]) -> dict[str, np.dtype[Any]]:
    """Of each column the kind of number that holds what every dataset has in it."""
    import numpy as np

    from mosaic_protocol.dataset_files import data_file

    found: dict[str, list[np.dtype[Any]]] = {}
    for entry in entries:
        with data_file.opened(entry.data, entry.manifest.layout) as file:
            for name, values in flat_columns(file, 0, [""] * int(file.starts[1]), with_next=True).items():
                found.setdefault(name, []).append(values.dtype)
    return {name: np.result_type(*kinds) for name, kinds in found.items()}


def _one_actor(entry: DatasetEntry, file: DataFile, number: int) -> list[str]:
    known = entry.manifest.actors
    only = next(iter(known)) if len(known) == 1 else ""
    return [only] * int(file.starts[number + 1] - file.starts[number])


def _has_next(entry: DatasetEntry) -> bool:
    from mosaic_protocol.dataset_files import data_file

    with data_file.opened(entry.data, entry.manifest.layout) as file:
        return bool(file.follows.all())


def flat_columns(file: DataFile, number: int, actors: Sequence[str], *, with_next: bool) -> dict[str, NDArray[Any]]:
    """An episode as rows of columns. ``with_next``: with what each step led to; where that is not known of the last,
    it is left out, and the row before becomes the end: a timeout that leads nowhere teaches nothing."""
    import numpy as np

    first, behind = int(file.starts[number]), int(file.starts[number + 1])
    steps = file.read(first, behind)
    if set(steps.observations) != {()} or set(steps.actions) != {()}:
        raise DatasetsError("observations or actions that have parts do not fit into columns")
    terminals, timeouts = file.terminals[first:behind].copy(), file.timeouts[first:behind].copy()
    keep = slice(None)
    if with_next and not file.follows[behind - 1] and not terminals[-1]:
        keep = slice(0, -1)
        if len(timeouts) > 1:
            timeouts[-2] = True
    columns = {
        "observations": steps.observations[()],
        "actions": steps.actions[()],
        "rewards": steps.rewards,
        **({"next_observations": steps.next_observations[()]} if with_next else {}),
        "terminals": terminals,
        "timeouts": timeouts,
        "infos/actor": np.array([actor.encode()[:60] for actor in actors], "S60"),
    }
    return {name: values[keep] for name, values in columns.items()}
