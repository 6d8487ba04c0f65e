"""Imports SPADE without the server that it brings along.

SPADE imports pyjabber, an XMPP server with a database layer, for those who want it in their own process: more than half
of the time that the import of SPADE takes. Runs have a server of their own (:mod:`spade_bdi_rl_worker.xmpp`), so names
stand in for it while SPADE is imported. Import this module before anything of SPADE.
"""

from __future__ import annotations

import sys
from types import ModuleType

_STAND_INS = {"pyjabber": (), "pyjabber.server": ("Server",), "pyjabber.server_parameters": ("Parameters",)}


def _import_without_its_server() -> None:
    if "spade" in sys.modules or "pyjabber" in sys.modules:
        return
    for name, classes in _STAND_INS.items():
        module = sys.modules[name] = ModuleType(name)
        for one in classes:
            setattr(module, one, type(one, (), {}))
    try:
        import spade.container  # noqa: F401
    finally:
        for name in _STAND_INS:
            del sys.modules[name]


_import_without_its_server()
