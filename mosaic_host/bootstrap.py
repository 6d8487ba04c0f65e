"""What ``ssh HOST python3 -c …`` runs first: makes MOSAIC's folder there, takes the code, says what the host has.

It is sent as text and runs before any code of MOSAIC is there, so it imports the standard library alone and runs on any
Python 3. Line one of its input is this file as JSON, line two the options, then comes the wheel, when one is sent.
"""

# No `from __future__`: what is here has to run on a Python that is too old for the rest, which is what it then says.
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

FOLDERS = ("agent", "link", "code", "logs/trainer", "trainer/configs", "trainer/runs")
NEEDED = ("msgspec", "grpc", "google.protobuf", "zstandard", "pydantic")
"""What the agent and every worker import."""
_TRY = (
    "import sys, json, importlib, importlib.util; missing = []\n"
    "look = importlib.import_module if sys.argv[1] == 'thorough' else importlib.util.find_spec\n"
    "for name in sys.argv[2:]:\n"
    "    try: found = look(name)\n"
    "    except Exception: found = None\n"
    "    if found is None: missing.append(name)\n"
    "print(json.dumps({'version': list(sys.version_info[:3]), 'missing': missing}))"
)


class Refused(Exception):
    """A sentence for the one who asked."""


def main(options: "dict[str, Any]", given: BinaryIO) -> None:
    """Answer with one line of JSON: the facts, or a problem."""
    os.umask(0o077)
    try:
        home = Path(options["folder"]).expanduser().absolute()
        make_folders(home)
        if options.get("bytes"):
            take_code(home, options["code"], given.read(options["bytes"]))
        if (home / "code" / options["code"]).is_dir():
            answer = facts(home, options)
        else:
            answer = {"needs_code": True}
    except Refused as problem:
        answer = {"problem": str(problem)}
    except OSError as error:
        answer = {"problem": f"{error.strerror or error}: {error.filename}"}
    print("\n" + json.dumps(answer), flush=True)


def make_folders(home: Path) -> None:
    for name in ("", *FOLDERS):
        (home / name).mkdir(parents=True, exist_ok=True)
    for folder in (home, home / "agent", home / "link"):
        found = folder.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid():
            raise Refused(f"{folder} is a link or belongs to another user: name another folder for this host")
        folder.chmod(0o700)


def take_code(home: Path, code: str, wheel: bytes) -> None:
    """Unpacked under the name of its contents, in one step."""
    if hashlib.sha256(wheel).hexdigest() != code:
        raise Refused("the code that arrived is not the code that was sent: try again")
    final = home / "code" / code
    draft = final.with_name(f"{code}.{os.getpid()}.draft")
    try:
        draft.mkdir()
        packed = draft / "mosaic.whl"
        packed.write_bytes(wheel)
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(draft)
        if not final.is_dir():
            draft.rename(final)
    except OSError:
        if not final.is_dir():  # else somebody else brought it at the same time
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def facts(home: Path, options: "dict[str, Any]") -> "dict[str, Any]":
    python = options.get("python") or str(home / "env" / "bin" / "python")
    disk = os.statvfs(home)
    return {
        "home": str(home),
        "system_version": list(sys.version_info[:3]),
        "python": python,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "gpus": gpus(),
        "bundles": bundles(home),
        **interpreter(python, "thorough" if options.get("thorough") else "quick"),
        "wall_time": time.time(),
    }


def interpreter(python: str, how: str) -> "dict[str, Any]":
    """Its version and what of MOSAIC's own requirements it lacks; or why it cannot be used. ``thorough`` imports them,
    which takes a second."""
    try:
        done = subprocess.run([python, "-c", _TRY, how, *NEEDED], capture_output=True, timeout=60, check=False)
    except OSError as error:
        return {"python_problem": error.strerror}
    except subprocess.TimeoutExpired:
        return {"python_problem": "it did not answer within 60 s"}
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return {"python_problem": said[-1] if said else f"it ended with status {done.returncode}"}
    told: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    return told


def gpus() -> "list[str]":
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.startswith("GPU ")]


def bundles(home: Path) -> "list[str]":
    """The environments that were built for workers."""
    return sorted(
        one.parent.name for one in home.glob("trainer/venvs/*/.mosaic-bundle.json") if one.parent.is_symlink()
    )


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer)
