"""What everything below a data root takes: run by run and part by part, and what is beside the runs. Walks folders and
asks the daemon what its databases hold: seconds where there are thousands of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.run_estimate import folder_bytes
from gym_gui.services.run_filter import FilterError, parse, require_known_settings
from gym_gui.services.run_labels import Scalar, config_of, flat_settings
from gym_gui.services.storage.planning import Around
from gym_gui.services.storage.profile import Profile, ProfileError
from gym_gui.services.storage.sizes import PARTS, CheckpointSize, Part, RunSize
from gym_gui.services.sweeps.model import decode_sweep
from mosaic_host.capacity import DiskRoom, disk_room
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_FILES = 1_000_000
_PER_CALL = 1000

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Usage:
    """``runs`` newest first, those in the trash too; ``beside`` is what else is below the data root, by what it is."""

    runs: Sequence[pb.Run]
    sizes: Mapping[str, RunSize]
    beside: Mapping[str, int]
    disk: DiskRoom
    open_sweeps: frozenset[str]

    @property
    def around(self) -> Around:
        return Around(self.open_sweeps, self.disk.used, self.disk.free)

    def by_part(self) -> dict[Part, int]:
        """Of all runs, those in the trash too."""
        return {part: sum(one.parts.get(part, 0) for one in self.sizes.values()) for part in PARTS}

    def of_trash(self) -> int:
        return sum(self.sizes[run.run_id].total for run in self.runs if run.deleted)


def measured(client: TrainerClient, paths: MosaicPaths, profile: Profile, progress: Progress) -> Usage:
    """Raises ClientError and OSError."""
    runs = list(_all_runs(client))
    stored = {one.run_id: one for one in client.storage()}
    checkpoints: dict[str, list[CheckpointSize]] = defaultdict(list)
    for entry in TrainingRegistry(paths).entries():
        if entry.origin == "run":
            taken = folder_bytes(entry.path, _MOST_FILES)
            checkpoints[entry.run_id].append(CheckpointSize(entry.path.name, taken, entry.is_best, entry.is_last))
    sizes = {}
    for number, run in enumerate(runs):
        progress("looking at runs", number, 0)
        sizes[run.run_id] = _size_of(run, paths, stored.get(run.run_id), checkpoints.get(run.run_id, ()))
    return Usage(runs, sizes, _beside(paths, profile), disk_room(paths.root), open_sweeps(client))


def _all_runs(client: TrainerClient) -> Iterator[pb.Run]:
    token = ""
    while True:
        page = client.runs(size=_PER_CALL, token=token, include_deleted=True)
        yield from page.runs
        if not (token := page.next_page_token):
            return


def _size_of(
    run: pb.Run, paths: MosaicPaths, stored: pb.RunStorage | None, checkpoints: Sequence[CheckpointSize]
) -> RunSize:
    its = paths.run(run.run_id)
    parts: dict[Part, int] = {
        "checkpoints": folder_bytes(its.checkpoints, _MOST_FILES),
        "videos": folder_bytes(its.videos, _MOST_FILES),
        "events": folder_bytes(its.tensorboard, _MOST_FILES),
    }
    parts["other"] = max(0, folder_bytes(its.directory, _MOST_FILES) - sum(parts.values()))
    parts["logs"] = folder_bytes(paths.run_logs(run.run_id), _MOST_FILES)
    parts["steps"] = stored.step_bytes if stored is not None else 0
    parts["metrics"] = stored.record_bytes if stored is not None else 0
    return RunSize(parts, tuple(checkpoints))


def _beside(paths: MosaicPaths, profile: Profile) -> dict[str, int]:
    folders = {
        "archives": profile.archive_folder(paths),
        "environments": paths.venvs,
        "datasets": paths.datasets,
        "imported policies": paths.imported,
        "sweeps": paths.sweeps,
        "package cache": paths.pip_cache,
    }
    found = {name: folder_bytes(folder, _MOST_FILES) for name, folder in folders.items()}
    databases = (paths.registry_db, paths.telemetry_db, paths.steps_db)
    found["databases (steps and metrics of runs included)"] = sum(map(_file_bytes, databases))
    return found


def _file_bytes(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except OSError:
        return 0


def open_sweeps(client: TrainerClient) -> frozenset[str]:
    """Names of the sweeps that are not over."""
    found = [decode_sweep(message.document) for message in client.sweeps()]
    return frozenset(sweep.name for sweep in found if not sweep.is_over)


def require_understood(profile: Profile, runs: Sequence[pb.Run]) -> None:
    """Refuse a rule about a setting that no run has: it is a typo, and the rule would never hold. Raises
    :class:`ProfileError`."""
    filters = [parse(rule.runs) for rule in profile.rules]
    if not runs or not any(one.settings for one in filters):
        return
    known: dict[str, Scalar] = {}
    for run in runs:
        known.update(flat_settings(config_of(run.config_json)))
    for rule, wanted in zip(profile.rules, filters, strict=True):
        try:
            require_known_settings(wanted, known)
        except FilterError as error:
            raise ProfileError(f"the rule for {rule.runs!r} finds nothing: {error}") from error
