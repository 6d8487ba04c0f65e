"""What a tracked run is to be called, and how W&B is reached: decided from arguments, environment and ``.env`` files.

The key is no part of a plan: it stays in the environment or the keyring until the process that needs it takes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic_protocol.suggest import holds_password, looks_secret

DEFAULT_PROJECT = "cleanRL"
"""The default of the scripts' flag. Found there, it says nothing, so that ``WANDB_PROJECT`` has a say."""
PROXY_SWITCH = "MOSAIC_WANDB_PROXY"
PROXY_VARIABLES = {"http": "WANDB_VPN_HTTP_PROXY", "https": "WANDB_VPN_HTTPS_PROXY"}

_PROJECT_DIRECTORY = Path(__file__).resolve().parents[2]
_HIDDEN = "(hidden)"
_ON = frozenset({"1", "true", "yes", "on"})
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]*@")


@dataclass(frozen=True)
class TrackingPlan:
    """All that the tracking process is told at its start. Holds no key and no password."""

    directory: str
    project: str
    name: str
    run_id: str | None = None
    """None lets W&B choose one."""
    entity: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    mode: str = ""
    """``offline`` when the environment says so; empty means: online if there is a key."""
    offline_because: str = ""
    """Why it must be offline although nobody asked for that."""


@dataclass(frozen=True)
class Proxies:
    """The addresses W&B is to be reached through, and where they were read."""

    addresses: Mapping[str, str]
    source: str

    def environment(self) -> dict[str, str]:
        """What a process must find in its environment to use them; both spellings are in use."""
        found: dict[str, str] = {}
        for scheme, address in self.addresses.items():
            found |= {f"{scheme.upper()}_PROXY": address, f"{scheme}_proxy": address}
        return found

    def __str__(self) -> str:
        places = sorted({without_credentials(address) for address in self.addresses.values()})
        return f"{' and '.join(places)} (from {self.source})"


def make_plan(args: Mapping[str, Any], run_dir: Path, environ: Mapping[str, str]) -> TrackingPlan:
    """The plan for a run. What a script's flag says comes before the environment; an empty text says nothing."""
    return TrackingPlan(
        directory=str(run_dir),
        project=_project(args, environ),
        entity=args.get("wandb_entity") or environ.get("WANDB_ENTITY") or None,
        name=str(args.get("wandb_run_name") or environ.get("WANDB_NAME") or _run_name(args, environ)),
        run_id=environ.get("WANDB_RUN_ID") or environ.get("MOSAIC_RUN_ID") or None,
        config=_publishable(args),
        mode="offline" if environ.get("WANDB_MODE", "").lower() in ("offline", "dryrun") else "",
    )


def proxy_wanted(args: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    return bool(args.get("wandb_use_proxy")) or environ.get(PROXY_SWITCH, "").strip().lower() in _ON


def find_proxies(environ: Mapping[str, str], directories: Iterable[Path] | None = None) -> Proxies | None:
    """Proxies named in the environment, else in the first ``.env`` file that names any; None without."""
    if found := _proxies_in(environ):
        return Proxies(found, "the environment")
    for directory in directories if directories is not None else env_file_directories(environ):
        file = directory / ".env"
        if found := _proxies_in(read_env_file(file)):
            return Proxies(found, str(file))
    return None


def env_file_directories(environ: Mapping[str, str]) -> list[Path]:
    """Where a ``.env`` is looked for: beside the data root, in the project, in the working directory."""
    home = environ.get("MOSAIC_HOME")
    beside = [Path(home).expanduser().absolute().parent] if home else []
    return list(dict.fromkeys([*beside, _PROJECT_DIRECTORY, Path.cwd()]))


def read_env_file(file: Path) -> dict[str, str]:
    """The KEY=VALUE lines of a file, {} when it cannot be read. Quotes and a leading ``export`` are taken off."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and not name.lstrip().startswith("#"):
            found[name.strip()] = _unquoted(value.strip())
    return found


def without_credentials(text: str) -> str:
    """A text whose addresses no longer carry a user or password."""
    return _CREDENTIALS.sub("", text)


def _proxies_in(values: Mapping[str, str]) -> dict[str, str]:
    return {scheme: values[name] for scheme, name in PROXY_VARIABLES.items() if values.get(name)}


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        return value[1:end]
    return value.split(" #", 1)[0].rstrip()


def _project(args: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    flag = args.get("wandb_project_name")
    chosen = flag if flag != DEFAULT_PROJECT else None
    return str(chosen or environ.get("WANDB_PROJECT") or DEFAULT_PROJECT)


def _run_name(args: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    if name := environ.get("MOSAIC_RUN_NAME"):
        return name
    return "__".join(str(args[key]) for key in ("env_id", "exp_name", "seed") if args.get(key) is not None) or "run"


def _publishable(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, without what must not leave the machine."""
    return {
        name: _HIDDEN if isinstance(value, str) and holds_password(value) else value
        for name, value in args.items()
        if not looks_secret(name)
    }
