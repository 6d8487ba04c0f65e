"""How people name another machine with a daemon, and which ones they named before."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.ssh_command import SshError, checked_destination
from mosaic_protocol.whole_files import drafted

FILE = "servers.json"
_MOST_REMEMBERED = 20
_LONGEST = 1000
_URI = re.compile(r"(ssh://[^/]*)(/.*)?")


@dataclass(frozen=True)
class Server:
    """Another machine. ``place`` is the checkout, environment or program over there; "" has it looked for."""

    destination: str
    place: str = ""

    @classmethod
    def parse(cls, text: str) -> Server:
        """``HOST``, ``USER@HOST``, ``USER@HOST:/PATH``, ``USER@HOST:~/PATH`` or ``ssh://USER@HOST:PORT/PATH``. Raises
        :class:`~mosaic_protocol.ssh_command.SshError`."""
        text = text.strip()
        if found := _URI.fullmatch(text):
            destination, place = found[1], (found[2] or "").rstrip("/").replace("/~", "~", 1)
        else:
            begins = [at for at in (text.find(":/"), text.find(":~")) if at > 0]
            end = min(begins, default=len(text))
            destination, place = text[:end], text[end + 1 :].rstrip("/") or ("/" if text[end + 1 :] else "")
        if len(text) > _LONGEST or not place.isprintable():
            raise SshError(f"{one_line(text)[:60]!r} names no folder: it has characters that no path should have")
        return cls(checked_destination(destination), place)

    def __str__(self) -> str:
        if not self.place:
            return self.destination
        slash = "/" if self.destination.startswith("ssh://") and self.place.startswith("~") else ""
        colon = "" if self.destination.startswith("ssh://") else ":"
        return f"{self.destination}{colon}{slash}{self.place}"

    @property
    def folder_name(self) -> str:
        """A name for what this machine keeps about the server; different for different servers."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.destination.lower()).strip("-")[:40] or "server"
        return f"{plain}-{hashlib.sha256(str(self).encode()).hexdigest()[:8]}"


class Servers:
    """The servers that were reached from here, newest first, in a file below this machine's data root. It is a
    convenience: what cannot be read counts as empty, what cannot be written is forgotten."""

    def __init__(self, root: Path) -> None:
        self._file = root / FILE

    def all(self) -> list[Server]:
        try:
            found = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return []
        servers = []
        for text in found[:_MOST_REMEMBERED] if isinstance(found, list) else []:
            with suppress(SshError):
                servers.append(Server.parse(str(text)))
        return servers

    def completed(self, server: Server) -> Server:
        """The server with the place that was last named for it, where none is named now."""
        if server.place:
            return server
        return next((one for one in self.all() if one.destination == server.destination), server)

    def remember(self, server: Server) -> None:
        known = self.all()
        wanted = [server, *(one for one in known if one.destination != server.destination)][:_MOST_REMEMBERED]
        if wanted == known:
            return
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with drafted(self._file) as draft:
                draft.write_text(json.dumps([str(one) for one in wanted], indent=1) + "\n")
