"""The user's own server: it is there before the run and afterwards, and its accounts are the user's.

One account serves one run at a time: agents under one JID would get each other's messages. A file in the data root,
locked as long as the run lives, says so at once and by name on one machine, and the kernel frees it however the run
ends. Runs on other machines are noticed at the login (see :mod:`~spade_bdi_rl_worker.xmpp.session`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import one_line
from spade_bdi_rl_worker.xmpp.contract import Account, ServerError, XmppSettings
from spade_bdi_rl_worker.xmpp.knock import knock, trust
from spade_bdi_rl_worker.xmpp.run_folder import cannot_write
from spade_bdi_rl_worker.xmpp.server_process import PASSWORD_VARIABLE
from spade_bdi_rl_worker.xmpp.session import try_login

KEYRING_SERVICE = "mosaic-xmpp"
_JID = re.compile(r"[^\s\"&'/:<>@]{1,255}@([a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?)")
_CLIENT_PORT = 5222
_CHECK_SECONDS = 10.0
_LONGEST_HOLDER = 200


class OwnServer:
    """See :class:`~spade_bdi_rl_worker.xmpp.contract.XmppServer`. Accounts are given out in the order of the JIDs."""

    def __init__(self, settings: XmppSettings) -> None:
        """Raises :class:`ServerError` for settings that cannot be meant."""
        self._jids = _jids_of(settings.jid)
        self.domain = self._jids[0].rpartition("@")[2]
        self.host = settings.host or self.domain
        self.port = settings.port or _CLIENT_PORT
        self.certificate = Path(settings.ca_file).expanduser() if settings.ca_file else None
        self.description = f"The run uses your XMPP server at {self.host}:{self.port} as {', '.join(self._jids)}."
        self._passwords: dict[str, str] = {}
        self._accounts: dict[str, Account] = {}
        self._locks = ExitStack()

    def __enter__(self) -> Self:
        try:
            for jid in self._jids:
                self._passwords[jid] = password_of(jid)
                self._locks.enter_context(_locked(jid))
        except BaseException:
            self._locks.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    def account(self, name: str) -> Account:
        if name not in self._accounts:
            if len(self._accounts) == len(self._jids):
                raise ServerError(
                    f"The agent {name} has no account on your XMPP server: there are {len(self._jids)} in the "
                    "settings. Give one JID for each agent, with commas between them, or let the run start a server "
                    "for itself."
                )
            jid = self._jids[len(self._accounts)]
            self._accounts[name] = Account(jid, self._passwords[jid])
        return self._accounts[name]

    def problem(self) -> str:
        """Nothing is known of somebody else's process; the pulse notices."""
        return ""

    def check(self) -> None:
        """Log in with each account and leave. Raises :class:`ServerError` with what is wrong."""
        context = trust(self.certificate)
        accounts = [Account(jid, password_of(jid)) for jid in self._jids]
        knock(self.host, self.port, self.domain, context, _CHECK_SECONDS)
        for account in accounts:
            try_login(account, self, _CHECK_SECONDS)


def _jids_of(text: str) -> list[str]:
    jids = [part.strip() for part in text.split(",") if part.strip()]
    if not jids:
        raise ServerError("Your own XMPP server needs an account: give its JID, such as agent@example.org.")
    for jid in jids:
        if not _JID.fullmatch(jid) or jid != jid.lower():  # a server answers in lower case, and nobody would know who
            raise ServerError(f"{one_line(jid)[:80]!r} is not a JID: write it as agent@example.org, in lower case.")
    if len({jid.rpartition("@")[2] for jid in jids}) > 1:
        raise ServerError("The JIDs of one run must have the same server behind the @.")
    if len(set(jids)) < len(jids):
        raise ServerError("A JID is given twice: each agent needs an account of its own.")
    return jids


def password_of(jid: str) -> str:
    """From the environment, else from the keyring. Raises :class:`ServerError`."""
    if password := os.environ.get(PASSWORD_VARIABLE):
        return password
    password, why_not = _from_keyring(jid)
    if password:
        return password
    raise ServerError(
        f"There is no password for {jid}: {PASSWORD_VARIABLE} is not set, and {why_not}. Set {PASSWORD_VARIABLE} in "
        "the environment of the daemon or of the command."
    )


def _from_keyring(jid: str) -> tuple[str, str]:
    """The password, or why there is none."""
    try:
        import keyring
    except ImportError:
        return "", "the package keyring is not installed"
    try:
        password = keyring.get_password(KEYRING_SERVICE, jid)
    except Exception:  # noqa: BLE001 - its backends raise what they like when there is no desktop session
        return "", "this machine has no keyring that can be opened, as is usual without a desktop session"
    return password or "", f"the keyring has no entry for it under {KEYRING_SERVICE}"


def _locked(jid: str) -> IO[bytes]:
    """The lock of an account, held until the file is closed. Raises :class:`ServerError`."""
    file = MosaicPaths.from_environment().xmpp_accounts / f"{hashlib.sha256(jid.encode()).hexdigest()[:32]}.lock"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.fdopen(
            os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+b", buffering=0
        )
    except OSError as error:
        raise cannot_write(file, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with lock:
            holder = one_line(lock.read(_LONGEST_HOLDER).decode(errors="replace"))
        raise ServerError(
            f"{jid} is in use by {holder or 'another run'}: two runs under one JID would get each other's messages. "
            "Stop that run, wait for its end, or use another account."
        ) from None
    lock.truncate()
    run = os.environ.get("MOSAIC_RUN_ID")
    lock.write((f"run {run}" if run else f"process {os.getpid()}").encode())
    return lock
