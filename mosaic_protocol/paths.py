"""Every path under the data root, from one place.

The root is ``MOSAIC_HOME`` when set, else ``var/`` of a source checkout, else ``~/.mosaic``. Names from outside
become a path only here, and only after :func:`checked_run_id` or :func:`checked_name` accepted them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_RUN_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")  # a ULID in Crockford's alphabet
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def checked_run_id(run_id: str) -> str:
    """Return ``run_id`` if it is a ULID, raise ValueError otherwise."""
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(
            f"{run_id[:60]!r} is not a run id: run ids are 26 characters such as 01K9ZQ3V7X0000000000000000"
        )
    return run_id


def checked_name(name: str) -> str:
    """Return ``name`` if it is a plain lower-case name that is safe as a file name, raise ValueError otherwise."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(f"{name[:60]!r} is not a plain name (lower-case letters, digits, '_', '-', '.')")
    return name


def default_root() -> Path:
    """The data root that applies when nobody names one."""
    if home := os.environ.get("MOSAIC_HOME"):
        return Path(home).expanduser().absolute()
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "gym_gui").is_dir():
        return checkout / "var"
    return Path.home() / ".mosaic"


@dataclass(frozen=True)
class MosaicPaths:
    """The layout below one data root. Building one touches no disk."""

    root: Path

    @classmethod
    def from_environment(cls) -> MosaicPaths:
        return cls(default_root())

    @property
    def trainer(self) -> Path:
        return self.root / "trainer"

    @property
    def registry_db(self) -> Path:
        return self.trainer / "registry.sqlite"

    @property
    def token_file(self) -> Path:
        return self.trainer / "token"

    @property
    def socket(self) -> Path:
        """Where the daemon listens. The folder around it lets nobody else in."""
        return self.trainer / "daemon.sock"

    @property
    def daemon_file(self) -> Path:
        """Who the daemon says it is, for people to read; nothing depends on it."""
        return self.trainer / "daemon.json"

    @property
    def certificate(self) -> Path:
        """What a daemon that listens on TCP shows, and clients insist on."""
        return self.trainer / "tls" / "cert.pem"

    @property
    def certificate_key(self) -> Path:
        """The private key of the daemon's own certificate."""
        return self.trainer / "tls" / "key.pem"

    @property
    def stopped_file(self) -> Path:
        """There while no daemon runs because the last one was stopped on purpose; a crash leaves none."""
        return self.trainer / "stopped.json"

    @property
    def xmpp_accounts(self) -> Path:
        """A file for each account on a user's XMPP server, locked by the run that is logged in with it."""
        return self.trainer / "xmpp-accounts"

    @property
    def tensorboard_servers(self) -> Path:
        """A folder for each TensorBoard server that runs."""
        return self.trainer / "tensorboard"

    @property
    def configs(self) -> Path:
        return self.trainer / "configs"

    @property
    def runs(self) -> Path:
        return self.trainer / "runs"

    @property
    def sweeps(self) -> Path:
        """A folder for each sweep, with Optuna's journal in it."""
        return self.trainer / "sweeps"

    @property
    def arrivals(self) -> Path:
        """Unpacked archives of runs until the daemon has taken them, a folder for each run."""
        return self.trainer / "arrivals"

    @property
    def trash(self) -> Path:
        return self.trainer / "trash"

    @property
    def storage_profiles(self) -> Path:
        """How long what is kept, if somebody wrote it down."""
        return self.root / "storage_profiles.yaml"

    @property
    def storage_lock(self) -> Path:
        """Locked by the one command that applies a storage profile."""
        return self.trainer / "storage.lock"

    @property
    def venvs(self) -> Path:
        return self.trainer / "venvs"

    @property
    def telemetry_db(self) -> Path:
        return self.root / "telemetry" / "telemetry.sqlite"

    @property
    def steps_db(self) -> Path:
        return self.telemetry_db.with_name("steps.sqlite")

    @property
    def custom(self) -> Path:
        """What workers put where people look for it; the registry lists none of it."""
        return self.training / "custom"

    @property
    def training(self) -> Path:
        """What outlives runs: imported policies, datasets, and the index of checkpoints."""
        return self.root / "training"

    @property
    def imported(self) -> Path:
        """Imported checkpoints, a folder for each name."""
        return self.training / "imported"

    @property
    def datasets(self) -> Path:
        """Datasets made from recorded steps, a folder for each name."""
        return self.training / "datasets"

    @property
    def arenas(self) -> Path:
        """Contests on the same seeds, a folder for each name."""
        return self.training / "arenas"

    @property
    def beginnings(self) -> Path:
        """Copies of episodes that sessions begin in the middle of."""
        return self.training / "beginnings"

    @property
    def script_consents(self) -> Path:
        """A small file for each foreign script that a person allowed to run, named after the script's sha256."""
        return self.training / "script-consents"

    @property
    def checkpoint_index(self) -> Path:
        """A cache: what it holds can be read from the checkpoints again."""
        return self.training / "checkpoint-index.sqlite"

    @property
    def pip_cache(self) -> Path:
        return self.root / "cache" / "pip"

    @property
    def jax_cache(self) -> Path:
        """Programs that JAX compiled, to be started again without compiling. May be deleted at any time."""
        return self.root / "cache" / "jax"

    @property
    def logs(self) -> Path:
        return self.root / "logs" / "trainer"

    @property
    def daemon_log(self) -> Path:
        return self.logs / "daemon.jsonl"

    def run_config(self, run_id: str) -> Path:
        """The run config as it was accepted."""
        return self.configs / f"config-{checked_run_id(run_id)}.json"

    def worker_config(self, run_id: str) -> Path:
        """The part of the run config that its worker reads."""
        return self.configs / f"worker-{checked_run_id(run_id)}.json"

    def run(self, run_id: str) -> RunPaths:
        return RunPaths(self.runs / checked_run_id(run_id))

    def sweep_study(self, sweep_id: str) -> Path:
        """What the samplers of a sweep know, as a journal of Optuna's."""
        return self.sweeps / checked_run_id(sweep_id) / "study.journal"

    def imported_policy(self, name: str) -> RunPaths:
        """An imported policy, laid out like a run."""
        return RunPaths(self.imported / checked_name(name))

    def dataset(self, name: str) -> Path:
        return self.datasets / checked_name(name)

    def arena(self, name: str) -> Path:
        return self.arenas / checked_name(name)

    def run_logs(self, run_id: str) -> Path:
        return self.logs / checked_run_id(run_id)


@dataclass(frozen=True)
class RunPaths:
    """The layout of one run directory, which the worker owns while it lives."""

    directory: Path

    @property
    def outbox(self) -> Path:
        return self.directory / "outbox"

    @property
    def claims(self) -> Path:
        return self.directory / "claims"

    @property
    def tensorboard(self) -> Path:
        return self.directory / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def evaluations(self) -> Path:
        return self.directory / "evaluations"

    @property
    def videos(self) -> Path:
        return self.directory / "videos"

    @property
    def code(self) -> Path:
        return self.directory / "code"

    @property
    def manifest(self) -> Path:
        return self.directory / "analytics.json"
