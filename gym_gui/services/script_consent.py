"""A person's consent to run a script that is not a worker's own: asked for once per file, known by its sha256.

A training script may do on this machine whatever its user may. So before one runs for the first time somebody sees the
command and says yes; a file that was changed since is another file, and is asked about again. Each consent is a small
file of its own, so that the cockpit and the command line can give one at the same time without a lock.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.whole_files import write_whole

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest

MOST_SCRIPT_BYTES = 16 * 1024 * 1024
_SHOWN_DIGITS = 12


class ConsentNeededError(Exception):
    """A foreign script that nobody has allowed yet; ``str()`` is a sentence, ``script`` says which."""

    def __init__(self, script: ForeignScript) -> None:
        super().__init__(
            f"{script.file} is new here or was changed since it was allowed (sha256 {script.short_hash}…): "
            "launch it from the form, which shows the command and asks"
        )
        self.script = script


@dataclass(frozen=True)
class ForeignScript:
    """A script that is not a worker's own, as it is now, and the command that would run it."""

    file: Path
    sha256: str
    command: str

    @property
    def short_hash(self) -> str:
        return self.sha256[:_SHOWN_DIGITS]


class ScriptConsents:
    """The consents of one data root. Blocking, and safe to use from several threads and processes."""

    def __init__(self, paths: MosaicPaths) -> None:
        self._folder = paths.script_consents

    def allows(self, script: ForeignScript) -> bool:
        return self.allows_content(script.sha256)

    def allows_content(self, sha256: str) -> bool:
        """Whether somebody allowed a file with this content, under whatever name."""
        return self._file(sha256).is_file()

    def allow(self, script: ForeignScript) -> None:
        """Keep the consent. Raises OSError when it cannot be kept."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {
            "file": str(script.file),
            "command": script.command,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_whole(self._file(script.sha256), json.dumps(kept, indent=2) + "\n", mode=0o600)

    def require(self, script: ForeignScript | None) -> None:
        """Raise :class:`ConsentNeededError` for a script that was not allowed; None needs no consent."""
        if script is not None and not self.allows(script):
            raise ConsentNeededError(script)

    def _file(self, sha256: str) -> Path:
        return self._folder / f"{sha256}.json"


def foreign_script(
    told: Mapping[str, Any], settings: Mapping[str, Any], manifest: WorkerManifest, paths: MosaicPaths
) -> ForeignScript | None:
    """The script that a run would execute, when it is not the worker's own; None when it is.

    ``told``: the worker's summary of a dry run, which names ``script``, ``arguments`` and ``python``; without one the
    manifest says which file the settings mean. The worker's package and environments that MOSAIC manages hold no
    foreign scripts. Raises OSError for a file that cannot be read.
    """
    named = told.get("script") or manifest.foreign_file(settings)
    if not isinstance(named, str | Path) or not str(named):
        return None
    file = Path(named).expanduser().resolve()
    own = (manifest.package_dir, paths.venvs, Path(sys.prefix))
    if any(file.is_relative_to(folder.resolve()) for folder in own):
        return None
    arguments = told.get("arguments")
    words = [
        str(told.get("python") or "python"),
        str(file),
        *map(str, arguments if isinstance(arguments, list) else ()),
    ]
    return ForeignScript(file, digest(file), shlex.join(words))


def digest(file: Path) -> str:
    """The sha256 of a script. Raises OSError, also for what is no regular file."""
    return hashlib.sha256(read_regular(file, MOST_SCRIPT_BYTES, follow=True)).hexdigest()
