"""XMPP without tears: a server for each run, or the user's own, and a login that says what is wrong with it.

:func:`check` says before a launch which server a run will use. :func:`choose_server` gives that server: a context
manager that lives as long as the run. :func:`connect` starts an agent on it, :class:`Pulse` notices when it dies or
freezes, and :func:`leave` stops the agent however the server is.
Every failure is a :class:`ServerError` whose text is what the user reads.
"""

from spade_bdi_rl_worker.xmpp.choice import check, choose_server
from spade_bdi_rl_worker.xmpp.contract import Account, ServerError, XmppServer, XmppSettings
from spade_bdi_rl_worker.xmpp.pulse import Pulse
from spade_bdi_rl_worker.xmpp.session import connect, leave

__all__ = [
    "Account",
    "Pulse",
    "ServerError",
    "XmppServer",
    "XmppSettings",
    "check",
    "choose_server",
    "connect",
    "leave",
]
