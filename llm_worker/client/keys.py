"""The key of a server: from the environment, or the keyring where there is one. It is never part of a run's settings,
and whatever a server says is shown without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

KEYRING_SERVICE = "mosaic-llm"
HIDDEN = "[key]"
_SHORTEST_HIDDEN = 4


def find_key(variable: str, base_url: str, environment: Mapping[str, str] | None = None) -> str:
    """ "" where there is none: many servers need none."""
    key = (os.environ if environment is None else environment).get(variable, "").strip()
    return key or _from_keyring(urlsplit(base_url).hostname or "")


def _from_keyring(host: str) -> str:
    """A keyring is foreign code that may be missing, locked or broken; a run without a key says so itself."""
    with suppress(Exception):
        import keyring

        return str(keyring.get_password(KEYRING_SERVICE, host) or "").strip()
    return ""


def without(text: str, key: str) -> str:
    """The text, in which the key is not to be read."""
    return text.replace(key, HIDDEN) if len(key) >= _SHORTEST_HIDDEN else text
