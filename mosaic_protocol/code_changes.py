"""What of a repository is not committed, as a short diff: what makes code that ran findable again.

A process of its own records it (``python -I -S code_changes.py PLACE FOLDER``), so that a start waits for nothing; it
needs the standard library alone. The repository is believed in nothing: commands that its configuration names (external
diffs, text conversions, filters, hooks, a file system monitor, fetching of missing objects) are not executed. What git
cannot do in seconds is left out and said. Values that look like secrets are masked, files that hold them left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_BYTES = 256 * 1024
"""Of a diff that is kept: as much as people read."""
MOST_SCRIPT_BYTES = 1024 * 1024
PATIENCE_SECONDS = 5.0
DIFF, RECORD, SCRIPT = "changes.diff", "changes.json", "script.py"
"""In the folder ``code`` of a run: the diff, what is said of it, and a copy of a script of the user's own."""

_SECRET_FILES = ("**/.env*", "**/*.pem", "**/*.key", "**/.netrc", "**/*credential*", "**/*secret*", "**/id_rsa*")
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.pager": "",
    "diff.external": "",
    "submodule.recurse": "false",
}
_RUNS_COMMANDS = re.compile(r"(filter\..+\.)(clean|smudge|process|required)", re.IGNORECASE | re.DOTALL)
_LOGIN_IN_URL = re.compile(rb"(://)[^/\s@:]+(?::[^/\s@]*)?@")
_SECRET = re.compile(
    rb"""(?ix)( [a-z0-9_.-]* (?:password|passwd|secret|token|api[_-]?key|private[_-]?key|credential) [a-z0-9_.-]* ["']?
    \s* [:=]+ \s* ) (?! \s ) [^\n]+"""
)
_KNOWN_TOKEN = re.compile(rb"\b(?:gh[pousr]_|github_pat_|hf_|sk-|AKIA|xox[abp]-)[A-Za-z0-9_-]{12,}")


def changes_of(
    place: Path, *, most: int = MOST_BYTES, patience: float = PATIENCE_SECONDS
) -> tuple[dict[str, Any], bytes]:
    """The record of what is changed in the repository around a folder, and the diff against its commit.

    ``{"sha256", "bytes", "files", "cut", "problem"}``; the hash is of the diff as it is kept, so that equal changes
    have equal hashes. Outside a repository, and where git is missing or too slow, ``problem`` says so. Raises nothing.
    """
    until = time.monotonic() + patience
    try:
        settings = _harmless(_git(place, ["config", "--list", "-z", "--name-only"], {}, MOST_BYTES * 4, until)[0])
        left_out = [f":(top,exclude,glob,icase){name}" for name in _SECRET_FILES]
        words = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=all"]
        diff, cut = _git(place, [*words, "HEAD", "--", ":(top)", *left_out], settings, most, until)
    except FileNotFoundError:
        return _record(problem="git is not installed"), b""
    except TimeoutError:
        return _record(problem=f"git took longer than {patience:g} s"), b""
    except (OSError, ValueError) as error:
        return _record(problem=str(error)[:200]), b""
    if cut:
        diff = diff[: diff.rfind(b"\n") + 1]
    kept = masked(diff)
    files = sum(line.startswith(b"diff --git ") for line in kept.splitlines())
    return _record(hashlib.sha256(kept).hexdigest(), len(kept), files, cut=cut), kept


def masked(diff: bytes) -> bytes:
    """A diff without what looks like a login or a key."""
    without = _SECRET.sub(rb"\1***", _LOGIN_IN_URL.sub(rb"\1***@", diff))
    return _KNOWN_TOKEN.sub(b"***", without)


def _record(
    sha256: str | None = None, size: int = 0, files: int = 0, *, cut: bool = False, problem: str | None = None
) -> dict[str, Any]:
    return {"sha256": sha256, "bytes": size, "files": files, "cut": cut, "problem": problem}


def _harmless(names: bytes) -> dict[str, str]:
    """The settings that take every command away; filters can have any name, so they are asked for first."""
    found = dict(_SETTINGS)
    for name in names.decode(errors="surrogateescape").split("\0"):
        if (match := _RUNS_COMMANDS.fullmatch(name)) is not None:
            found[name] = "false" if match[2].lower() == "required" else ""
    return found


def _git(place: Path, words: list[str], settings: Mapping[str, str], most: int, until: float) -> tuple[bytes, bool]:
    """What git prints, at most so many bytes, and whether it would have gone on. Raises OSError, TimeoutError, and
    ValueError with git's own word."""
    process = subprocess.Popen(
        ["git", "--no-pager", "--no-optional-locks", *words],
        cwd=place,
        env=_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        said, cut = _read(process, most, until)
        if not cut and process.wait(max(0.1, until - time.monotonic())) != 0:
            raise ValueError("git finds no repository here that it may read, or no commit in it")
        return said, cut
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _read(process: subprocess.Popen[bytes], most: int, until: float) -> tuple[bytes, bool]:
    assert process.stdout is not None
    found = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                return bytes(found), False
            found += part
            if len(found) > most:
                return bytes(found[:most]), True
    raise TimeoutError


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """By variables, since a name with an equals sign cannot be given on the command line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {**kept, **given, **quiet, "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}


def _keep(file: Path, content: bytes) -> None:
    draft = file.with_name(f".{file.name}.draft")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as written:
        written.write(content)
    draft.replace(file)


def main(words: list[str]) -> int:
    """``PLACE FOLDER [SCRIPT]``: record the repository around PLACE, and SCRIPT itself, in FOLDER."""
    place, folder = Path(words[0]), Path(words[1])
    os.nice(10)
    folder.mkdir(mode=0o700, exist_ok=True)
    if len(words) > 2:
        with Path(words[2]).open("rb") as script:
            content = script.read(MOST_SCRIPT_BYTES + 1)
        if len(content) <= MOST_SCRIPT_BYTES:
            _keep(folder / SCRIPT, content)
    record, diff = changes_of(place)
    if diff:
        _keep(folder / DIFF, diff)
    _keep(folder / RECORD, json.dumps(record).encode())
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, IndexError):
        sys.exit(1)
