"""Make the project's own Python environment in ``.venv``, or find that it is already right.

Standard library only. The syntax stays within Python 3.7 so that an old ``python3`` can start this file,
which then hands over to a newer interpreter or says in a sentence that there is none.

A stamp inside ``.venv`` holds a hash of all that decides its content: while it fits, a run ends at once.
A lock file admits one installing run at a time, and is not empty while one is at work: text found in it
later means that a setup was cut short, and a half-made environment is built again rather than trusted.

``MOSAIC_TORCH_INDEX`` (``make … TORCH_INDEX=URL``) names the package index to take torch from, and torch alone: it
decides between the CPU build and the one with the CUDA libraries, whose download is ten times as large.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Iterator, Sequence  # noqa: UP035 - in 3.7 collections.abc is not subscriptable

OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
TORCH_INDEX = "MOSAIC_TORCH_INDEX"
CONSTRAINTS = "requirements/constraints.txt"
OTHER_INTERPRETERS = ("python3.13", "python3.12", "python3.11")
EXTRAS = {
    "demo": ("cleanrl",),
    "gui": ("cleanrl", "video", "gui"),
    "dev": (
        "cleanrl",
        "corl",
        "atari",
        "box2d",
        "minigrid",
        "mujoco",
        "envpool",
        "procgen",
        "jax",
        "wandb",
        "video",
        "datasets",
        "parquet",
        "cmaes",
        "spade-bdi",
        "llm",
        "gui",
        "docs",
        "dev",
    ),
}
# Debian package: the library that shows whether it is there, and what does not work without it.
LIBRARIES = {
    "gui": {
        "libegl1": ("/usr/lib/*/libEGL.so.1", "the cockpit"),
        "libgl1": ("/usr/lib/*/libGL.so.1", "the cockpit"),
        "libxkbcommon0": ("/usr/lib/*/libxkbcommon.so.0", "the cockpit"),
        "libdbus-1-3": ("/usr/lib/*/libdbus-1.so.3", "the cockpit"),
        "libfontconfig1": ("/usr/lib/*/libfontconfig.so.1", "the cockpit"),
        "fonts-dejavu-core": ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "the looks of the cockpit"),
        "libxcb-cursor0": ("/usr/lib/*/libxcb-cursor.so.0", "the cockpit on an X screen"),
        "libxcb-icccm4": ("/usr/lib/*/libxcb-icccm.so.4", "the cockpit on an X screen"),
        "libxcb-image0": ("/usr/lib/*/libxcb-image.so.0", "the cockpit on an X screen"),
        "libxcb-keysyms1": ("/usr/lib/*/libxcb-keysyms.so.1", "the cockpit on an X screen"),
        "libxcb-randr0": ("/usr/lib/*/libxcb-randr.so.0", "the cockpit on an X screen"),
        "libxcb-render-util0": ("/usr/lib/*/libxcb-render-util.so.0", "the cockpit on an X screen"),
        "libxcb-shape0": ("/usr/lib/*/libxcb-shape.so.0", "the cockpit on an X screen"),
        "libxcb-xkb1": ("/usr/lib/*/libxcb-xkb.so.1", "the cockpit on an X screen"),
        "libxkbcommon-x11-0": ("/usr/lib/*/libxkbcommon-x11.so.0", "the cockpit on an X screen"),
    },
    "dev": {
        "libfaketime": ("/usr/lib/*/faketime/libfaketime.so.1", "the tests that move the clock"),
        "libqt5gui5": ("/usr/lib/*/libQt5Gui.so.5", "the tests on Procgen's games"),
        "xvfb": ("/usr/bin/Xvfb", "the tests of the cockpit on a screen"),
        "openssh-server": ("/usr/sbin/sshd", "the tests that reach another machine over SSH"),
        "iproute2": ("/usr/sbin/ip", "the tests with other machines in namespaces"),
        "slurmctld": ("/usr/sbin/slurmctld", "the tests of runs under Slurm"),
        "slurmd": ("/usr/sbin/slurmd", "the tests of runs under Slurm"),
        "slurm-client": ("/usr/bin/sbatch", "the tests of runs under Slurm"),
        "munge": ("/usr/sbin/munged", "the tests of runs under Slurm"),
        "prosody": ("/usr/bin/prosody", "the tests of BDI agents on an XMPP server"),
        "xauth": ("/usr/bin/xauth", "the tests of the cockpit on a screen"),
    },
}
# PyTorch with all that it brings, measured for the pinned version.
SIZES = {
    "CPU": "PyTorch's CPU build (0.2 GB to fetch, 0.9 GB on disk)",
    "CUDA": "the CUDA build (2.7 GB to fetch, 4.6 GB on disk)",
}
SECONDS_BETWEEN_SIGNS_OF_LIFE = 30
LOG_TAIL_LINES = 20

# In order of trust: a lost connection also shows itself as a distribution that is not found.
ADVICE = {
    "No space left on device": "Free about 2 GB of disk space (6 GB for a CUDA build of PyTorch), then repeat.",
    "(constraint)": (
        f"pyproject.toml and {CONSTRAINTS} name different versions: write the new one into both, then repeat."
    ),
    "onnection": "Check the network, and the proxy and index that pip is configured with, then repeat.",
    "timed out": "The network is slow or down: repeat, what was downloaded is kept.",
    "No matching distribution": (
        "The index that pip uses does not have it for this Python: check the index (for torch TORCH_INDEX, where "
        "you gave it), or try another Python (`make setup PYTHON=python3.12`)."
    ),
}


class SetupError(Exception):
    """A failure that the user can act on; the text is the whole message."""


class Home:
    """Where the environment of the project at ``root`` lives, and the files that describe it.

    ``wanted`` is the version of Python that the user asks for; without it, an environment with any will do.
    """

    def __init__(self, root: Path, wanted: tuple[int, int] | None = None) -> None:
        self.root = root
        self.wanted = wanted
        self.venv = root / ".venv"
        self.python = self.venv / "bin" / "python"
        self.stamp = self.venv / "mosaic-setup.json"
        self.log = self.venv / "mosaic-setup.log"
        self.lock = root / ".venv.lock"

    def project(self) -> dict[str, Any]:
        import tomllib  # since 3.11: not to be had before the interpreter is chosen

        return tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))

    def read_stamp(self) -> dict[str, Any]:
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}


def say(line: str) -> None:
    print(f"setup: {line}", flush=True)


def choose_interpreter() -> str:
    if sys.version_info >= OLDEST_PYTHON:
        return sys.executable
    for name in OTHER_INTERPRETERS:
        path = shutil.which(name)
        if path and is_new_enough(path):
            return path
    raise SetupError(
        f"MOSAIC needs Python 3.11 or newer; this is {sys.version.split()[0]}, and none of "
        f"{', '.join(OTHER_INTERPRETERS)} on the PATH works. Install one (Debian 12 and newer: "
        "`sudo apt-get install -y python3 python3-venv`), then repeat."
    )


def is_new_enough(interpreter: str) -> bool:
    """Asked by running it: a version manager may leave a name on the PATH with nothing behind it."""
    question = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    return succeeds([interpreter, "-c", question])


def succeeds(command: Sequence[str]) -> bool:
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.run(command, check=False, env=environment, **quiet).returncode == 0


def apt_install(package: str) -> bool:
    """Whether the Debian package, or each of several, is installed now; only root on a machine with apt can do it."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    say(f"installing the Debian package {package} (about half a minute)")
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    install = [*apt, "install", "-y", "--no-install-recommends", *package.split()]
    return succeeds(install) or (succeeds([*apt, "update"]) and succeeds(install))


def require_venv_module() -> None:
    """Debian ships Python without ensurepip, and then `python3 -m venv` fails half-way."""
    if has_module("venv") and has_module("ensurepip"):
        return
    package = debian_venv_package()
    if not apt_install(package):
        raise SetupError(
            f"Python cannot make environments on this machine: run `sudo apt-get install -y {package}`, then repeat."
        )


def has_module(name: str) -> bool:
    """A folder left behind by a removed package is found too, but has no origin."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def debian_venv_package() -> str:
    if os.path.realpath(sys.executable) == os.path.realpath("/usr/bin/python3"):
        return "python3-venv"
    return "python{}.{}-venv".format(*sys.version_info[:2])


def offer_libraries(profile: str) -> None:
    """Some parts need Debian's libraries; the rest of the environment is good without them."""
    wanted = {**LIBRARIES["gui"], **LIBRARIES["dev"]} if profile == "dev" else LIBRARIES.get(profile, {})
    missing = [name for name, (library, _) in wanted.items() if not glob.glob(library)]  # noqa: PTH207 - absolute
    if not missing or apt_install(" ".join(missing)):
        return
    for name in missing:
        say(f"{name} is missing, so {wanted[name][1]} will not work.")
    say(f"Run `sudo apt-get install -y {' '.join(missing)}` to get what is missing.")


def fingerprint(home: Home, profile: str) -> str:
    """Changes when the profile would install something else; settings of linters and tests do not count."""
    project = home.project()
    recipe = {
        "build-system": project["build-system"],
        "project": project["project"],
        "setuptools": project.get("tool", {}).get("setuptools", {}),
        "extras": EXTRAS[profile],
        "constraints": hashlib.sha256((home.root / CONSTRAINTS).read_bytes()).hexdigest(),
        "recipe": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()


def is_current(home: Home, profile: str) -> bool:
    stamp = home.read_stamp()
    return stamp.get(profile) == fingerprint(home, profile) and defect(home, stamp) is None


def defect(home: Home, stamp: dict[str, Any]) -> str | None:
    """Why the environment that stands there cannot be built upon; None when it can."""
    if not home.python.exists():
        return "it has no Python"
    if stamp.get("root", str(home.root)) != str(home.root):
        return f"it was made for {stamp['root']}, and its commands still point there"
    version = version_inside(home)
    if version is None:
        return "its Python does not start, or has no pip"
    if version < OLDEST_PYTHON:
        return "its Python is {}.{}".format(*version)
    if home.wanted and version != home.wanted:
        return "its Python is {}.{}, and you ask for {}.{}".format(*version, *home.wanted)
    if stamp.get("python", list(version)) != list(version):
        return "the system's Python has changed under it"
    if torch_index() and stamp.get("torch_index") != digest(torch_index()):
        return "its torch did not come from the index you name now"  # pip would leave it: the version is the same
    return None


def version_inside(home: Home) -> tuple[int, int] | None:
    question = [str(home.python), "-I", "-c", "import pip, sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(question, check=True, capture_output=True, text=True, timeout=60)
        major, minor = answer.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def set_up(home: Home, profile: str) -> None:
    """Leave ``.venv`` as the profile wants it. Raises SetupError with a sentence for the user."""
    torch_index()  # a wrong one is refused before anything is made
    if not is_current(home, profile):
        with exclusive(home.lock) as lock:
            if not is_current(home, profile):
                build(home, profile, lock)
    offer_libraries(profile)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[IO[str]]:
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is at work in this folder; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def build(home: Home, profile: str, lock: IO[str]) -> None:
    started = time.monotonic()
    lock.seek(0)
    stamp = home.read_stamp()
    reason = "an earlier setup was cut short" if lock.read() else defect(home, stamp)
    if reason:
        require_venv_module()
    lock.write(f"a setup is at work, process {os.getpid()}\n")
    lock.flush()
    if reason:
        create(home, reason, lock)
        stamp = {"torch_index": digest(torch_index())}
    origin = {"torch_index": stamp.get("torch_index")}
    write_stamp(home, origin)  # no profile: an update under way must not look finished to a run beside it
    install(home, profile, lock)
    write_stamp(home, dict(origin, **fingerprints_covered_by(home, profile)))
    lock.truncate(0)
    say(f"the environment in .venv is ready ({time.monotonic() - started:.0f} s)")


def create(home: Home, reason: str, lock: IO[str]) -> None:
    if home.venv.exists():
        say(f"building .venv afresh: {reason}")
        shutil.rmtree(home.venv)
    if sys.version_info[:2] > NEWEST_PYTHON:
        say(
            "MOSAIC is tested with Python {}.{} at the newest: some package may be missing for this one".format(
                *NEWEST_PYTHON
            )
        )
    say(f"creating .venv with Python {sys.version.split()[0]} (a few seconds)")
    home.venv.mkdir()
    run_logged([sys.executable, "-m", "venv", str(home.venv)], home, lock)


def install(home: Home, profile: str, lock: IO[str]) -> None:
    extras = EXTRAS[profile]
    torch = torch_pin(home, extras)
    if not has_torch(home, torch):
        tell_torch_builds()
    say(f"1/2 installing {torch} first, so that nothing draws in another build (1 to 10 minutes)")
    install_torch(torch, home, lock)
    say(f"2/2 installing MOSAIC in place with the extras {', '.join(extras)} (about a minute)")
    pip_install(["--editable", f".[{','.join(extras)}]"], home, lock)


def torch_pin(home: Home, extras: Sequence[str]) -> str:
    optional = home.project()["project"]["optional-dependencies"]
    pins: list[str] = [pin for extra in extras for pin in optional[extra] if pin.startswith("torch==")]
    return pins[0]


def has_torch(home: Home, pin: str) -> bool:
    name, version = pin.split("==")
    return any(home.venv.glob(f"lib/python*/site-packages/{name}-{version}*.dist-info"))


def tell_torch_builds() -> None:
    """Say what will be fetched. Both sizes: only pip's index decides, and asking it takes up to a minute."""
    if torch_index():
        say("PyTorch comes from the index that you name with TORCH_INDEX")
    elif not has_gpu():
        say(f"This machine shows no NVIDIA GPU: {SIZES['CPU']} is all it can use.")
        say(f"pip's index decides what comes; the usual one has {SIZES['CUDA']}.")
        say("For the small one, press Ctrl-C and repeat with TORCH_INDEX=URL, the URL of PyTorch's CPU index;")
        say("PyTorch's install page shows it after --index-url when you choose Linux, Pip and CPU.")


def has_gpu() -> bool:
    return os.path.exists("/proc/driver/nvidia/version") or shutil.which("nvidia-smi") is not None  # noqa: PTH110


def torch_index() -> str:
    """The index that the user names for torch, "" for pip's own. Raises SetupError."""
    index = os.environ.get(TORCH_INDEX, "").strip()
    if index and "://" not in index:
        raise SetupError(
            f"TORCH_INDEX={index} is not an address: give the URL of a package index (https://… or file:///…). "
            "PyTorch's install page shows the one of its CPU builds after --index-url."
        )
    return index


def digest(index: str) -> str:
    """What the stamp keeps of an index: its URL may hold a password."""
    return index and hashlib.sha256(index.encode()).hexdigest()


def install_torch(pin: str, home: Home, lock: IO[str]) -> None:
    """Only torch comes from the index named for it: what it depends on comes with the rest, from pip's own."""
    index = torch_index()
    if index:
        pip_install(["--no-deps", pin], home, lock, PIP_INDEX_URL=index)
    else:
        pip_install([pin], home, lock)


def pip_install(what: Sequence[str], home: Home, lock: IO[str], **settings: str) -> None:
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--constraint", CONSTRAINTS]
    run_logged([str(home.python), "-I", "-m", "pip", "install", *options, *what], home, lock, **settings)


def run_logged(command: Sequence[str], home: Home, lock: IO[str], **settings: str) -> None:
    """Run a step with its output in the log, which holds the last step only. ``settings`` join its environment.

    The child holds the lock too: when this process alone is killed, no second setup gets in while it writes.
    """
    # A --user default of the user's is an error in an environment.
    environment = dict(os.environ, PIP_USER="0", **settings)
    with home.log.open("wb") as log:
        child = subprocess.Popen(
            command,
            cwd=home.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
        )
        try:
            status = wait_with_signs_of_life(child)
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if status > 0:
        lock.truncate(0)  # it gave up by itself, and pip then puts back what it had replaced: nothing is half-made
    if status != 0:
        raise SetupError(explain_failure(command, status, home))


def wait_with_signs_of_life(child: subprocess.Popen[bytes]) -> int:
    started = time.monotonic()
    while True:
        try:
            return child.wait(timeout=SECONDS_BETWEEN_SIGNS_OF_LIFE)
        except subprocess.TimeoutExpired:
            say(f"    still at work after {time.monotonic() - started:.0f} s")


def explain_failure(command: Sequence[str], status: int, home: Home) -> str:
    how = f"ended with status {status}" if status > 0 else f"was killed by signal {-status}"
    output = home.log.read_text(encoding="utf-8", errors="replace")
    tail = "\n".join(f"    | {line}" for line in output.splitlines()[-LOG_TAIL_LINES:])
    advice = next((hint for sign, hint in ADVICE.items() if sign in output), "Mend what it names, then repeat.")
    log = home.log.relative_to(home.root)
    return f"`{' '.join(command)}` {how}:\n{tail}\nsetup: {advice} The whole output is in {log}."


def fingerprints_covered_by(home: Home, profile: str) -> dict[str, str]:
    """A profile whose extras are among those installed is satisfied as well."""
    covered = [name for name, extras in EXTRAS.items() if set(extras) <= set(EXTRAS[profile])]
    return {name: fingerprint(home, name) for name in covered}


def write_stamp(home: Home, content: dict[str, Any]) -> None:
    stamp = dict(content, root=str(home.root), python=version_inside(home))
    draft = home.stamp.with_suffix(".tmp")
    draft.write_text(json.dumps(stamp), encoding="utf-8")
    draft.replace(home.stamp)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Make the project's own Python environment in .venv.")
    parser.add_argument("--profile", choices=sorted(EXTRAS), default="demo", help="dev adds tests and checkers")
    parser.add_argument("--this-python", action="store_true", help="do not keep a .venv made with another version")
    options = parser.parse_args(arguments)
    try:
        interpreter = choose_interpreter()
        if interpreter != sys.executable:
            os.execv(interpreter, [interpreter, __file__, *arguments])
        wanted = sys.version_info[:2] if options.this_python else None
        set_up(Home(Path(__file__).resolve().parent.parent, wanted), options.profile)
    except PermissionError as problem:
        print(f"setup: {problem}. Take over what another user left here (chown), then repeat.", file=sys.stderr)
        return 1
    except (SetupError, OSError) as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("setup: interrupted; the next run builds .venv afresh", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
