"""Where the ``mosaic`` command begins. Imports next to nothing, so that Ctrl-C finds somebody who catches it."""

from __future__ import annotations

import sys

_INTERRUPTED = 130
_AS_JSON = '{"error": {"message": "interrupted", "kind": "interrupted", "exit_code": 130}}'


def main() -> int:
    """Run the command line of this process; the exit code."""
    try:
        from gym_gui.cli.main import main as command
        from gym_gui.services.trainer.storage.private_files import keep_private

        keep_private()
        return command()
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    try:
        print("mosaic: interrupted", file=sys.stderr, flush=True)
        if "--json" in sys.argv:
            print(_AS_JSON, flush=True)
    except OSError:
        pass  # nobody listens any more
    return _INTERRUPTED
