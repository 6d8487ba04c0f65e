"""The ``mosaic`` command of another machine: where it is looked for, and how a command is run with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gym_gui.services.remote.server import Server
from mosaic_protocol.ssh_command import posix_script

NOT_FOUND = (126, 127)
"""Exit statuses of a shell that found no program, and of our script."""

TYPED = "MOSAIC_TYPED"
"""What a person typed to reach a command that runs over there, for its advice on what to type next."""

# One line without single quotes, for any login shell. An empty place has the usual ones tried: the shell of an SSH
# session often has a shorter PATH than a terminal.
_FIND = (
    f"{TYPED}=$1; export {TYPED}; shift; "
    'place=$1; shift; case $place in "~"|"~/"*) place=$HOME${place#"~"};; esac; '
    'if [ "$place" ]; then set -- "$place/.venv/bin/mosaic" "$place/bin/mosaic" "$place" -- "$@"; else '
    'set -- "$(command -v mosaic)" "$HOME/.local/bin/mosaic" "$HOME/mosaic/.venv/bin/mosaic" '
    '"$HOME/MOSAIC/.venv/bin/mosaic" "$HOME/.venv/bin/mosaic" -- "$@"; fi; '
    'found=; while [ "$1" != -- ]; do '
    '[ "$found" ] || { [ -f "$1" ] && [ -x "$1" ] && found=$1; }; shift; done; shift; '
    '[ "$found" ] || exit 127; exec "$found" "$@"'
)


def there(server: Server, home: str, words: Sequence[str]) -> str:
    """The command for the shell over there that runs ``mosaic`` with these words; ``home`` is a data root of that
    machine, "" its own default. Nothing secret belongs into it."""
    given = ["--home", home] if home else []
    return posix_script(_FIND, f"mosaic --on {shlex.quote(str(server))}", server.place, *given, *words)


def not_found(server: Server) -> str:
    if server.place:
        where = f"{server.place} on {server.destination}"
        return f"there is no mosaic in {where}: name a checkout that is set up, or its program"
    return (
        f"no mosaic was found on {server.destination}: install it there, or say where it is with "
        f"`--on {server.destination}:/path/to/checkout`"
    )
