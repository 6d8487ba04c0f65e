"""Files from the net: resumed where they broke off, bounded, and never taken for whole because a server said so.

What has arrived of a file lies in a hidden folder beside the datasets, named after its address, so that a command that
was killed goes on where it was. It goes away when the file was taken, or is not what was asked for.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gym_gui.services.datasets.d4rl_names import known_names, url_of
from gym_gui.services.run_words import size
from mosaic_protocol.datasets import DatasetsError, RetryableError, file_sha256
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.suggest import nearest
from mosaic_protocol.whole_files import sync, write_whole

MOST_BYTES = 64 * 2**30
_BLOCK = 2**18
_SECONDS = 30.0
"""Without a byte, after which a connection counts as dead."""
_ATTEMPTS = 5
"""In a row without a byte, after which it is given up."""
_HASH = re.compile(r"[0-9a-fA-F]{64}")
_SPACE_LEFT = 64 * 2**20
_RETRY_STATUS = frozenset({408, 429, 500, 502, 503, 504})

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Download:
    """What to fetch."""

    url: str
    sha256: str | None = None
    most_bytes: int = MOST_BYTES

    @classmethod
    def meant(cls, word: str, sha256: str | None, most_bytes: int = MOST_BYTES) -> tuple[Download, str | None]:
        """What an address, or a name of D4RL's, means; and that name. Raises DatasetsError."""
        if sha256 is not None and not _HASH.fullmatch(sha256):
            raise DatasetsError("--sha256 takes 64 hexadecimal digits")
        digest = sha256.lower() if sha256 is not None else None
        if "://" not in word:
            url = url_of(word)
            if url is None:
                near = nearest(word, known_names())
                advice = f"did you mean {near!r}?" if near else "give an address that begins with https://"
                raise DatasetsError(f"D4RL's archive has no {word[:60]!r}; {advice}")
            return cls(url, digest, most_bytes), word
        parts = urllib.parse.urlsplit(word)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DatasetsError(f"only http:// and https:// addresses can be downloaded, got {parts.scheme[:20]!r}")
        return cls(word, digest, most_bytes), None

    @property
    def spoken(self) -> str:
        """The address without a password, and without what may hold a token."""
        parts = urllib.parse.urlsplit(self.url)
        place = parts.hostname or ""
        place += f":{parts.port}" if parts.port else ""
        return urllib.parse.urlunsplit((parts.scheme, place, parts.path, "", ""))

    @property
    def file_name(self) -> str:
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(self.url).path)).name[:100] or "download"


@contextmanager
def fetched(order: Download, paths: MosaicPaths, progress: Progress = lambda got, of: None) -> Iterator[Path]:
    """The whole file, which is removed at the end of the block. Raises DatasetsError, and passes those of the block on:
    one that says the file is no good removes it. What had arrived stays after all others, and when the block is
    interrupted: the next call goes on from there."""
    folder = paths.datasets / ".downloads"
    place = folder / hashlib.sha256(order.url.encode()).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with place.with_suffix(".lock").open("wb") as lock:
            _take(lock, order)
            _complete(order, place.with_suffix(".part"), place.with_suffix(".json"), progress)
            file = place.with_suffix(".part")
            try:
                yield file
            except RetryableError as error:
                raise RetryableError(f"{error}; what was downloaded stays for the next try") from error
            except DatasetsError:
                _forget(place)
                raise
            _forget(place)
    except OSError as error:
        raise DatasetsError(f"{order.spoken} cannot be kept in {folder}: {error.strerror or error}") from error


def _take(lock: IO[bytes], order: Download) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DatasetsError(f"{order.spoken} is being downloaded by another command") from None


def _forget(place: Path) -> None:
    for ending in (".part", ".json", ".lock"):
        with suppress(OSError):
            place.with_suffix(ending).unlink(missing_ok=True)


def _complete(order: Download, part: Path, notes: Path, progress: Progress) -> None:
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _attempt(order, part, notes, progress)
            break
        except _BrokenOffError as error:
            grown = (part.stat().st_size if part.exists() else 0) > before
            failures = 0 if grown else failures + 1
            if failures >= _ATTEMPTS:
                raise DatasetsError(
                    f"{order.spoken} cannot be downloaded: {error}; the same command goes on"
                ) from error
            time.sleep(min(0.2 * 2**failures, 5.0))
    if not part.stat().st_size:
        part.unlink()
        raise DatasetsError(f"{order.spoken} was answered with nothing: the file there is empty")
    if order.sha256 is not None and (found := file_sha256(part)) != order.sha256:
        part.unlink()
        notes.unlink(missing_ok=True)
        raise DatasetsError(f"{order.spoken} is not the file that was asked for: its sha256 is {found}")


class _BrokenOffError(Exception):
    """The connection ended too early; it may be tried again."""


class _OnlyHttp(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme not in ("http", "https"):
            raise DatasetsError("the server leads to something that is no web address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _attempt(order: Download, part: Path, notes: Path, progress: Progress) -> None:
    """Fetch what is missing. Raises _BrokenOffError and DatasetsError."""
    have = part.stat().st_size if part.exists() else 0
    known = _notes(notes) if have else {}
    if have and known.get("total") == have:
        return
    headers = {"User-Agent": "mosaic", "Accept-Encoding": "identity"}
    if have and known.get("tag"):
        headers |= {"Range": f"bytes={have}-", "If-Range": known["tag"]}
    opener = urllib.request.build_opener(_OnlyHttp)
    try:
        with opener.open(urllib.request.Request(order.url, headers=headers), timeout=_SECONDS) as answer:
            _received(order, answer, part, notes, have, progress)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            notes.unlink(missing_ok=True)  # what is here is not the beginning of what is there: from the beginning
            raise _BrokenOffError("the server has no more than what is here") from error
        if error.code in _RETRY_STATUS:
            raise _BrokenOffError(f"the server answers {error.code}") from error
        raise DatasetsError(
            f"{order.spoken} cannot be downloaded: the server answers {error.code} {error.reason}"
        ) from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _BrokenOffError(str(getattr(error, "reason", "")) or str(error) or type(error).__name__) from error


def _received(
    order: Download, answer: http.client.HTTPResponse, part: Path, notes: Path, have: int, progress: Progress
) -> None:
    goes_on = answer.status == http.HTTPStatus.PARTIAL_CONTENT and _begins_at(answer) == have
    got = have if goes_on else 0
    length = answer.headers.get("Content-Length")
    total = got + int(length) if length is not None and length.isdecimal() else None
    if total is not None:
        _require_room(order, total, part, total - got)
    write_whole(notes, json.dumps({"tag": _tag(answer), "total": total}))
    with part.open("ab" if goes_on else "wb") as file:
        while block := answer.read1(_BLOCK):  # what has come, without waiting for more: it is kept when this is killed
            got += len(block)
            if got > order.most_bytes:
                raise _too_large(order)
            file.write(block)
            file.flush()
            progress(got, total)
    sync(part)
    if total is not None and got < total:
        raise _BrokenOffError(f"the connection ended after {got:,} of {total:,} bytes")


def _require_room(order: Download, total: int, part: Path, missing: int) -> None:
    if total > order.most_bytes:
        raise _too_large(order)
    free = shutil.disk_usage(part.parent).free
    if missing + _SPACE_LEFT > free:
        raise DatasetsError(f"{order.spoken} needs {size(missing)}, and the disk has {size(free)} left")


def _too_large(order: Download) -> DatasetsError:
    return DatasetsError(f"{order.spoken} is larger than {size(order.most_bytes)}: --most-bytes allows more")


def _begins_at(answer: http.client.HTTPResponse) -> int | None:
    found = re.match(r"bytes ([0-9]{1,18})-", answer.headers.get("Content-Range") or "")
    return int(found[1]) if found else None


def _tag(answer: http.client.HTTPResponse) -> str | None:
    """What says that the file is still the same: without it a download begins again."""
    tag = answer.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")


def _notes(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_bytes()[:4096])
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
