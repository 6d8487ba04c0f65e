"""Builds environments on a host, by the bundle machinery over there, and tells how far it is. Blocks; for a thread."""

from __future__ import annotations

import json
import posixpath
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.building import BASE
from gym_gui.services.hosts.code import Code, pack
from gym_gui.services.hosts.reach import AwayError, HostReport, ask
from gym_gui.services.hosts.way import way_to
from gym_gui.services.trainer.errors import RefusedError
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.ssh_command import SshError, end, posix_script, said, start_tied

_LONGEST_LINE = 4000
_LAST_WORDS_SECONDS = 5.0
_MOST_SAID = 4000


class BuildError(AwayError):
    """An environment could not be built over there; the environment before it is still the one in use."""


@dataclass(frozen=True)
class Built:
    """What was built, by bundle, and whether the host's own interpreter is now the one that was built there."""

    directories: dict[str, str]
    uses_built_python: bool


def build(
    host: Host,
    bundles: Sequence[str],
    progress: Callable[[str], None],
    *,
    may_ask: bool = False,
    cancel: threading.Event | None = None,
) -> Built:
    """Build these bundles on a host, after what every worker needs where the host has no usable interpreter.

    Raises :class:`AwayError`. ``progress`` is called with one line at a time, in the calling thread; what is left over
    there when that raises is ended by itself."""
    code = pack()
    progress(f"Looking at {host.name}")
    report = ask(host, code, may_ask=may_ask, thorough=True)
    wanted = [*([BASE] if report.problem and BASE not in bundles else []), *dict.fromkeys(bundles)]
    if not wanted:
        return Built({}, False)
    python = (host.python or "python3") if report.problem else report.python
    directories = _asked(host, python, report, code, wanted, progress, may_ask, cancel or threading.Event())
    return Built(directories, BASE in directories)


def _asked(
    host: Host,
    python: str,
    report: HostReport,
    code: Code,
    bundles: Sequence[str],
    progress: Callable[[str], None],
    may_ask: bool,
    cancel: threading.Event,
) -> dict[str, str]:
    folder = posixpath.join(report.code_folder, code.sha256)
    order = {"home": report.home, "code": folder, "bundles": list(bundles)}
    words = [
        "env",
        f"PYTHONPATH={folder}",
        "PYTHONDONTWRITEBYTECODE=1",
        python,
        "-m",
        "gym_gui.services.hosts.building",
    ]
    arguments = way_to(host, may_ask=may_ask).arguments(posix_script('exec "$@"', *words))
    with tempfile.TemporaryFile() as errors:
        try:
            process = start_tied(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        except (SshError, OSError) as error:
            raise AwayError(f"host {host.name} cannot be reached: {error}") from None
        watcher = threading.Thread(target=_end_when_cancelled, args=(process, cancel), daemon=True)
        watcher.start()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            return _followed(host, process, progress)
        except _Unfinished:
            end(process, _LAST_WORDS_SECONDS)
            errors.seek(0)
            why = "it was cancelled" if cancel.is_set() else said(errors.read()[-_MOST_SAID:]) or "the connection broke"
            raise BuildError(f"host {host.name}: nothing was built: {why}") from None
        finally:
            end(process)  # its input ends with it, and what is under way over there
            cancel.set()


class _Unfinished(Exception):
    """What came ended before the last word."""


def _followed(host: Host, process: subprocess.Popen[bytes], progress: Callable[[str], None]) -> dict[str, str]:
    assert process.stdout is not None
    built: dict[str, str] = {}
    while line := process.stdout.readline(_LONGEST_LINE):
        try:
            told = json.loads(line)
        except ValueError:
            continue  # a login may print before it
        if not isinstance(told, dict):
            continue
        if "problem" in told:
            raise BuildError(f"host {host.name}: {one_line(str(told['problem']))[:1000]}")
        if "built" in told:
            built[str(told["bundle"])] = one_line(str(told["built"]))
        elif "said" in told:
            progress(one_line(str(told["said"]))[:_LONGEST_LINE])
    if process.wait(_LAST_WORDS_SECONDS) or not built:
        raise _Unfinished
    return built


def _end_when_cancelled(process: subprocess.Popen[bytes], cancel: threading.Event) -> None:
    cancel.wait()
    if process.poll() is None:
        process.terminate()


def checked_bundles(known: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The bundles by name. Raises :class:`RefusedError` with the nearest one."""
    from mosaic_protocol.suggest import did_you_mean

    for name in wanted:
        if name not in known:
            raise RefusedError(f"there is no bundle {name[:60]!r}{did_you_mean(name, known)}")
    return list(wanted)
