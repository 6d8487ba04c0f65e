"""``hosts.toml``: the hosts that a person added, one table for each.

    [node1]
    ssh = "alice@node1.example.org"
    python = "/opt/mosaic/bin/python"   # an interpreter that has what workers need; without it one is built there

    [cluster]
    kind = "slurm"                      # ssh names its login node; without it that is this machine
    partition = "gpu"

A name becomes a path, and a destination an argument of ``ssh``, so both are checked here and nowhere else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from gym_gui.services.trainer.errors import RefusedError
from mosaic_protocol.host_labels import HOST_LABEL, MAX_HOST_LABELS
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.ssh_command import SshError, checked_destination
from mosaic_protocol.whole_files import write_whole

ANY, HERE = "any", "here"
"""Words that stand where a host's name may: whichever fits first, and this machine."""
DEFAULT_FOLDER = "~/.mosaic-host"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_FOLDER = re.compile(r"(~|~?(/[A-Za-z0-9_.+-]+)+)")
_MOST_BYTES = 1024 * 1024
_MOST_HOSTS = 1000
_MOST_CPUS, _MOST_MEMORY_MB, _MOST_GPUS = 4096, 2**24, 1024
SSH, SLURM = "ssh", "slurm"
_KINDS = (SSH, SLURM)
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]{0,99}")
_TIME = re.compile(r"(?:[0-9]{1,4}-)?[0-9]{1,6}(?::[0-9]{1,2}){0,2}")


@dataclass(frozen=True)
class Host:
    """A machine that runs may go to."""

    name: str
    ssh: str
    """Its destination, as ``ssh`` takes it."""
    folder: str = DEFAULT_FOLDER
    """Where MOSAIC keeps its files there."""
    python: str = ""
    """An interpreter there that has what workers need. Empty: the one of the environment that was built there."""
    cpus: int = 0
    """How many CPUs runs may have; 0 for all."""
    memory_mb: int = 0
    """How much memory runs may have; 0 for all."""
    drained: bool = False
    """Whether no further run starts there."""
    labels: tuple[str, ...] = ()
    """What runs may ask for with ``--label``, in the order of the alphabet."""
    kind: str = SSH
    """``ssh``: a machine. ``slurm``: a cluster whose login node ``ssh`` names, empty for this machine."""
    partition: str = ""
    """Of Slurm, for its jobs. Empty: the one that is usual there, as for the account and the time."""
    account: str = ""
    time: str = ""
    """The time limit of a job, as ``sbatch --time`` takes it."""
    gpus: int = 0
    """How many GPUs the runs on a cluster may have together."""

    @property
    def is_batch_system(self) -> bool:
        """Whether it queues what is sent to it."""
        return self.kind == SLURM

    @property
    def is_known(self) -> bool:
        """Whether it says how it is reached."""
        return bool(self.ssh) or self.is_batch_system


class HostBook:
    """Reads and writes the file whole. Safe to use from several processes: the last one that writes wins."""

    def __init__(self, paths: MosaicPaths) -> None:
        self.file = paths.root / "hosts.toml"

    def hosts(self) -> dict[str, Host]:
        """By name, in the order of the file. Raises :class:`RefusedError` with the place of what is wrong."""
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise RefusedError(f"{self.file} cannot be read: {error.strerror}") from error
        return parsed(content, self.file)

    def get(self, name: str) -> Host:
        known = self.hosts()
        if name not in known:
            from mosaic_protocol.suggest import did_you_mean  # brings pydantic, which no help text needs

            hint = did_you_mean(name, known) if known else ": `mosaic hosts add NAME USER@HOST` adds one"
            raise RefusedError(f"there is no host {name[:60]!r}{hint}")
        return known[name]

    def add(self, host: Host) -> None:
        known = self.hosts()
        if host.name in known:
            raise RefusedError(f"there is a host {host.name} already ({known[host.name].ssh}): remove it first")
        self._write([*known.values(), checked(host)])

    def change(self, name: str, **changes: Any) -> Host:
        changed = checked(replace(self.get(name), **changes))
        self._write(changed if one.name == name else one for one in self.hosts().values())
        return changed

    def remove(self, name: str) -> None:
        self.get(name)
        self._write(one for one in self.hosts().values() if one.name != name)

    def _write(self, hosts: Iterable[Host]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.file, "\n".join(_table(host) for host in hosts), mode=0o600)


def checked(host: Host) -> Host:
    """The host, if every field of it may be used. Raises :class:`RefusedError`."""
    if not _NAME.fullmatch(host.name):
        raise RefusedError(
            f"{host.name[:60]!r} is no name for a host: it has lower-case letters, digits, '_' and '-', at most 32"
        )
    if host.name in (ANY, HERE):
        raise RefusedError(f"{host.name!r} cannot be the name of a host: it means any host, or this machine")
    if host.kind not in _KINDS:
        raise RefusedError(f"kind of {host.name} must be {' or '.join(_KINDS)}, got {host.kind[:60]!r}")
    try:
        if host.ssh or not host.is_batch_system:
            checked_destination(host.ssh)
    except SshError as error:
        raise RefusedError(str(error)) from None
    _check_batch(host)
    if not _FOLDER.fullmatch(host.folder) or ".." in PurePosixPath(host.folder).parts:
        raise RefusedError(f"folder of {host.name} must be an absolute path or begin with ~/, of plain characters")
    if host.python and (not host.python.startswith("/") or not host.python.isprintable()):
        raise RefusedError(f"python of {host.name} must be the absolute path of an interpreter there")
    for name, value, most in _bounds(host):
        if not 0 <= value <= most:
            raise RefusedError(f"{name} of {host.name} must be between 0 and {most}, got {value}")
    return replace(host, labels=_checked_labels(host))


def _checked_labels(host: Host) -> tuple[str, ...]:
    for label in host.labels:
        if not re.fullmatch(HOST_LABEL, label):
            letters = "lower-case letters, digits, '_', '.' and '-', at most 32"
            raise RefusedError(f"{label[:60]!r} is no label for a host: it has {letters}")
    labels = tuple(sorted(set(host.labels)))
    if len(labels) > MAX_HOST_LABELS:
        raise RefusedError(f"{host.name} has {len(labels)} labels: at most {MAX_HOST_LABELS} are allowed")
    return labels


def _bounds(host: Host) -> list[tuple[str, int, int]]:
    return [
        ("cpus", host.cpus, _MOST_CPUS),
        ("memory_mb", host.memory_mb, _MOST_MEMORY_MB),
        ("gpus", host.gpus, _MOST_GPUS),
    ]


def _check_batch(host: Host) -> None:
    """What becomes an option of ``sbatch``, and belongs to a batch system alone."""
    for name, shape in (("partition", _WORD), ("account", _WORD), ("time", _TIME)):
        value = getattr(host, name)
        if value and not host.is_batch_system:
            raise RefusedError(f"{name} of {host.name} is for a host of Slurm")
        if value and not shape.fullmatch(value):
            raise RefusedError(f"{name} of {host.name} cannot be {value[:60]!r}")
    if host.gpus and not host.is_batch_system:
        raise RefusedError(f"gpus of {host.name} is for a host of Slurm: others are asked what they have")


def parsed(content: bytes, file: Path) -> dict[str, Host]:
    if len(content) > _MOST_BYTES:
        raise RefusedError(f"{file} is larger than {_MOST_BYTES} bytes")
    try:
        tables = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RefusedError(f"{file} is not TOML: {error}") from None
    if len(tables) > _MOST_HOSTS:
        raise RefusedError(f"{file} names {len(tables)} hosts: at most {_MOST_HOSTS} are allowed")
    return {name: _host(name, table, file) for name, table in tables.items()}


def _host(name: str, table: object, file: Path) -> Host:
    if not isinstance(table, Mapping):
        raise RefusedError(f"{file}: {name[:60]!r} must be a table, [{name[:32]}]")
    kinds = {one.name: type(one.default) if one.name != "ssh" else str for one in fields(Host) if one.name != "name"}
    for key, value in table.items():
        if key not in kinds:
            from mosaic_protocol.suggest import did_you_mean

            raise RefusedError(f"{file}: [{name[:32]}] has no field {key[:60]!r}{did_you_mean(key, kinds)}")
        if kinds[key] is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
            continue
        if type(value) is not kinds[key]:
            words = {str: "text", int: "a whole number", bool: "true or false", tuple: "a list of texts"}
            raise RefusedError(f"{file}: {key} of [{name[:32]}] must be {words[kinds[key]]}")
    if "ssh" not in table and table.get("kind", SSH) == SSH:
        raise RefusedError(f'{file}: [{name[:32]}] does not say how it is reached: ssh = "USER@HOST" is missing')
    try:
        given: dict[str, Any] = {"ssh": "", **table, "labels": tuple(table.get("labels", ()))}
        return checked(Host(name, **given))
    except RefusedError as error:
        raise RefusedError(f"{file}: {error}") from None


def _table(host: Host) -> str:
    """A table of TOML. Text in JSON's spelling is text in TOML's."""
    usual = asdict(Host(host.name, ""))
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in asdict(host).items() if key != "name" and value != usual[key]
    ]
    return "\n".join([f"[{host.name}]", *lines, ""])
