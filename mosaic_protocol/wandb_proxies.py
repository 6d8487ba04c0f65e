"""Proxies for Weights & Biases: named in the environment or, else, in a ``.env`` file.

The worker goes through them and the cockpit says beforehand which they would be, so both look in the same places. Read
by hand, because of a ``.env`` only plain KEY=VALUE lines are wanted, and nothing of it may reach the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROXY_VARIABLES = {"http": "WANDB_VPN_HTTP_PROXY", "https": "WANDB_VPN_HTTPS_PROXY"}
PROXY_SWITCH = "MOSAIC_WANDB_PROXY"
NO_PROXY_NAMED = "a proxy was asked for, but neither the environment nor a .env file names one"

_PROJECT_DIRECTORY = Path(__file__).resolve().parents[1]
_ON = frozenset({"1", "true", "yes", "on"})
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]*@")


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


def switched_on(environ: Mapping[str, str]) -> bool:
    """Whether the environment says that W&B is to be reached through a proxy."""
    return environ.get(PROXY_SWITCH, "").strip().lower() in _ON


def proxy_settings(extras: Mapping[str, Any]) -> dict[str, str]:
    """What the extras of a run say of its proxy, as the environment would say it; {} where it is to have none."""
    if not extras.get("wandb_use_vpn_proxy"):
        return {}
    typed = {name: extras.get(f"wandb_{scheme}_proxy") for scheme, name in PROXY_VARIABLES.items()}
    return {PROXY_SWITCH: "1"} | {name: str(address) for name, address in typed.items() if address}


def usual_proxies(environ: Mapping[str, str]) -> Proxies | None:
    """Those that every program of this environment goes through."""
    found = {
        scheme: environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") for scheme in PROXY_VARIABLES
    }
    named = {scheme: address for scheme, address in found.items() if address}
    return Proxies(named, "the environment") if named else None


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
