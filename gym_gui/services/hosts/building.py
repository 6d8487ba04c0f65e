"""What builds an environment on a host, over there, from the code that was sent: ``python3 -m`` and this module.

It runs on a Python that has nothing but its standard library, because what it builds is the rest. Line one of its input
says what to build; it answers with lines of JSON, ``said`` for progress and at last ``built`` or ``problem``. When its
input ends, the one who asked is gone: the build is given up, and the environment before it is still the one in use.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

OLDEST = (3, 11)
BASE = "base"
TOOLS = "build_tools"
"""Where in the code lies what pip's requirements are read with; it is nobody else's to import."""


def main() -> None:
    options = json.loads(sys.stdin.buffer.readline())
    if sys.version_info < OLDEST:
        _say(problem=f"{sys.executable} is Python {sys.version.split()[0]}; 3.11 is the oldest that MOSAIC runs on")
        return
    code, home = Path(options["code"]), Path(options["home"])
    sys.path.append(str(code / TOOLS))
    from gym_gui.services.trainer.bundles.manager import BundleManager
    from gym_gui.services.trainer.errors import TrainerError
    from mosaic_protocol.paths import MosaicPaths

    os.umask(0o077)
    paths = MosaicPaths(home)
    manager = BundleManager(paths, [code / "requirements", *sorted(code.glob("*/requirements"))])
    cancel = _cancelled_with(sys.stdin.fileno())
    try:
        for bundle in options["bundles"]:
            directory = manager.install(bundle, lambda line: _say(said=line), cancel)
            if bundle == BASE:
                _use_as_base(home, paths.venvs / BASE)
            _say(built=str(directory), bundle=bundle)
    except (TrainerError, ValueError) as error:
        _say(problem=str(error))
    except OSError as error:
        _say(problem=f"{error.strerror or error}: {error.filename}")


def _cancelled_with(given: int) -> threading.Event:
    """Set when nobody is at the other end of this descriptor any more. Read without the lock of a file object: a thread
    that holds that one aborts the process when it leaves."""
    cancel = threading.Event()

    def watch() -> None:
        os.read(given, 1)
        cancel.set()

    threading.Thread(target=watch, daemon=True).start()
    return cancel


def _use_as_base(home: Path, link: Path) -> None:
    """The agent and workers without a bundle of their own are run by this one."""
    spare = home / f".env.{os.getpid()}"
    spare.unlink(missing_ok=True)
    spare.symlink_to(link)
    spare.replace(home / "env")


def _say(**words: Any) -> None:
    try:
        print(json.dumps(words), flush=True)
    except BrokenPipeError:
        os._exit(1)


if __name__ == "__main__":
    main()
