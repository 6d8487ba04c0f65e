"""Where the key for Weights & Biases comes from. It is looked for, handed to the process that needs it, and never kept.

The tracking process of a run, the upload of recorded runs and the cockpit all look in the same places, in this order:
the environment, the keyring of the operating system, and the netrc file that ``wandb login`` writes.
"""

from __future__ import annotations

import importlib
import netrc
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

KEY_VARIABLE = "WANDB_API_KEY"
KEYRING_SERVICE, KEYRING_USER = "mosaic-wandb", "api_key"
ADDRESS_VARIABLE, DEFAULT_ADDRESS = "WANDB_BASE_URL", "https://api.forge.coreweave.com"
"""Where wandb 0.31 goes unless told otherwise."""
_EARLIER = {"api.forge.coreweave.com": "api.wandb.ai"}
"""The name that the same server has for earlier versions of wandb, whose ``wandb login`` wrote it into netrc files."""
HOW_TO_SET = f"set {KEY_VARIABLE}, or `keyring set {KEYRING_SERVICE} {KEYRING_USER}`"

_FORM = re.compile(r"(?:[\w.]+-)?[\w-]{40,}|[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)


class KeyringError(Exception):
    """There is no keyring that a key could be put into; the message is a sentence."""


@dataclass(frozen=True)
class WandbKey:
    """A key, and in words where it was found. The words may be shown, the secret never is."""

    source: str
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"a key from {self.source}"

    def hidden_in(self, text: str) -> str:
        """A text of another program without the key."""
        return text.replace(self.secret, "(the key)") if self.secret else text


def find_key(environ: Mapping[str, str]) -> WandbKey | None:
    """The key to use, None where there is none. A locked keyring waits for a person: not for a GUI's own thread."""
    if secret := environ.get(KEY_VARIABLE):
        return WandbKey(KEY_VARIABLE, secret)
    if secret := _in_keyring():
        return WandbKey("the keyring", secret)
    file = netrc_file(environ)
    if secret := _in_netrc(file, server_address(environ)):
        return WandbKey(str(file), secret)
    return None


def server_address(environ: Mapping[str, str]) -> str:
    """Where W&B is, without a slash at its end."""
    return (environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS).rstrip("/")


def why_not_a_key(text: str) -> str:
    """What is wrong with something that a person typed as a key, without repeating it; "" when nothing is."""
    if not text:
        return "The key is empty."
    if not text.isascii() or not text.isprintable() or " " in text:
        return "A key has letters, digits, dashes and underscores only: copy it again from W&B."
    if not _FORM.fullmatch(text):
        return f"A key has at least 40 letters and digits, this has {len(text)}: copy all of it from W&B."
    return ""


def keep_in_keyring(secret: str) -> None:
    """Store a key for later. Raises :class:`KeyringError` where nothing would keep it safely."""
    try:
        keyring = _keyring()
        backend = keyring.get_keyring()
        if "plaintext" in type(backend).__name__.lower():
            raise KeyringError("The keyring here writes plain text.")
        keyring.set_password(KEYRING_SERVICE, KEYRING_USER, secret)
    except ModuleNotFoundError:
        raise KeyringError("The package keyring is not installed.") from None
    except KeyringError:
        raise
    except Exception as error:  # noqa: BLE001 - backends raise what they like: locked, no backend, no session bus
        name = type(error).__name__
        raise KeyringError(f"The keyring of this machine cannot be used ({name}).") from None


def _keyring() -> ModuleType:
    return importlib.import_module("keyring")  # nobody has to have it


def _in_keyring() -> str:
    try:
        return str(_keyring().get_password(KEYRING_SERVICE, KEYRING_USER) or "")
    except Exception:  # noqa: BLE001 - not installed, locked, no backend: there is no key to be had
        return ""


def netrc_file(environ: Mapping[str, str]) -> Path:
    """Where ``wandb login`` would have written a key."""
    home = Path(environ.get("HOME") or Path.home())
    named = environ.get("NETRC")
    return Path(named.replace("~", str(home), 1) if named.startswith("~/") else named) if named else home / ".netrc"


def _in_netrc(file: Path, address: str) -> str:
    """The password for W&B's host. An entry for any other host, ``default`` too, is for somebody else."""
    try:
        hosts = netrc.netrc(str(file)).hosts if file.is_file() else {}
        server = urlsplit(address).netloc
    except (netrc.NetrcParseError, OSError, ValueError):
        return ""
    entry = hosts.get(server) or hosts.get(_EARLIER.get(server, ""))
    return entry[2] or "" if entry else ""
