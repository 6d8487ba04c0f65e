"""prosody as a run's own server: loopback, no registration, no other servers, no secret on disk.

Accounts are files that prosody reads at each login, with what SCRAM stores in place of a password: nobody can log in
with it. So there is no moment at which others could register, and no password on a command line. prosody chooses the
port itself and keeps it: nobody can take it between choosing and binding.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import shutil
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from spade_bdi_rl_worker.xmpp.certificate import in_memory, make_pair
from spade_bdi_rl_worker.xmpp.contract import LOCAL_DOMAIN, LOOPBACK, Account, ServerError, checked_agent_name
from spade_bdi_rl_worker.xmpp.run_folder import make_folder, private_folder, write_private
from spade_bdi_rl_worker.xmpp.server_process import ServerProcess

_READY_SECONDS = 20.0
_LOOK_EVERY = 0.005
_ITERATIONS = 4096  # the least that SCRAM allows: the passwords are random, guessing them is hopeless anyway
_TAKEN = "Failed to open server port"
_LISTENING = "0A"
_LARGEST_STANZA = 4 * 1024 * 1024  # a message may carry a whole Q-table

_CONFIG = """\
-- Written for one run; the next one gets another.
run_as_root = {as_root}
data_path = {folder}
certificates = {folder}
interfaces = {{ "{loopback}" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{}}
legacy_ssl_ports = {{}}
modules_enabled = {{ "roster"; "saslauth"; "tls"; "ping" }}
modules_disabled = {{ "s2s"; "s2s_auth_certs"; "admin_shell"; "admin_telnet"; "http"; "register_ibr" }}
allow_registration = false
c2s_require_encryption = true
allow_unencrypted_plain_auth = false
c2s_stanza_size_limit = {largest}
authentication = "internal_hashed"
password_hash = "SHA-1"
-- Contacts and waiting messages need not outlive the run.
default_storage = "memory"
storage = {{ accounts = "internal" }}
umask = "077"
log = {{ {{ levels = {{ min = "info" }}; to = "console" }} }}
ssl = {{ key = "/proc/self/fd/{key}"; certificate = "/proc/self/fd/{certificate}" }}
VirtualHost "{domain}"
"""


def find_prosody() -> str:
    """The path of the program, "" when it is not installed. It is not asked for its version: that starts a server."""
    return shutil.which("prosody") or ""


class ProsodyServer:
    """See :class:`~spade_bdi_rl_worker.xmpp.contract.XmppServer`. ``port`` 0: a free one."""

    host = LOOPBACK
    domain = LOCAL_DOMAIN
    description = "The run starts prosody for itself, on the loopback interface, and stops it when it ends."

    def __init__(self, program: str, run_dir: Path, port: int = 0) -> None:
        self._program = program
        self._run_dir = run_dir
        self.port = port
        self.certificate: Path | None = None
        self._folder: Path | None = None
        self._process: ServerProcess | None = None
        self._accounts: dict[str, Account] = {}

    def __enter__(self) -> Self:
        folder = self._folder = make_folder(self._run_dir)
        try:
            self._start(folder)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was entered"
        return self._process.pid

    def account(self, name: str) -> Account:
        assert self._folder is not None, "the server was entered"
        if name not in self._accounts:
            account = Account(f"{checked_agent_name(name)}@{self.domain}", secrets.token_urlsafe(32))
            file = self._folder / self.domain / "accounts" / f"{_file_name(name)}.dat"
            write_private(file, _stored(account.password).encode())
            self._accounts[name] = account
        return self._accounts[name]

    def problem(self) -> str:
        assert self._process is not None, "the server was entered"
        return self._process.problem()

    def _start(self, folder: Path) -> None:
        private_folder(folder / self.domain)
        private_folder(folder / self.domain / "accounts")
        pair = make_pair(self.domain)
        self.certificate = write_private(folder / "certificate.pem", pair.certificate)
        with in_memory(pair.key) as key, in_memory(pair.certificate) as certificate:
            config = write_private(folder / "prosody.cfg.lua", self._config(folder, key, certificate).encode())
            command = [self._program, "--config", str(config), "-F"]
            self._process = ServerProcess("prosody", command, folder, inherit=(key, certificate))
            self._process.start()
            self.port = self._wait_until_ready(self._process)

    def _config(self, folder: Path, key: int, certificate: int) -> str:
        return _CONFIG.format(
            as_root="true" if os.getuid() == 0 else "false",
            folder=_lua(str(folder)),
            loopback=LOOPBACK,
            port=self.port,
            largest=_LARGEST_STANZA,
            key=key,
            certificate=certificate,
            domain=self.domain,
        )

    def _wait_until_ready(self, process: ServerProcess) -> int:
        deadline = time.monotonic() + _READY_SECONDS
        while not (port := _port_of(process.pid)):
            if any(_TAKEN in line for line in process.lines()):
                raise port_taken(self.port)
            if problem := process.problem():
                raise ServerError(problem)
            if time.monotonic() > deadline:
                raise ServerError(
                    f"prosody was started but is not ready after {_READY_SECONDS:.0f} s: the machine is overloaded or "
                    f"its installation is damaged. What it said is in {self._folder}/prosody.log; try again, or choose "
                    "the embedded server."
                )
            time.sleep(_LOOK_EVERY)
        return port

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        if self._folder is not None:  # of an ended server only what it said is of use
            shutil.rmtree(self._folder / self.domain, ignore_errors=True)


def port_taken(port: int) -> ServerError:
    return ServerError(
        f"Port {port} of {LOOPBACK} is taken: another program listens there. Leave the port at 0, so that a free one "
        "is used, or end that program."
    )


def _port_of(pid: int) -> int:
    """The TCP port at which a process listens; 0 while it does not."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{entry}") for entry in os.listdir(f"/proc/{pid}/fd")]
        table = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:  # it ends, or a descriptor was closed meanwhile
        return 0
    sockets = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    for fields in map(str.split, table):
        if fields[3] == _LISTENING and fields[9] in sockets:
            return int(fields[1].rpartition(":")[2], 16)
    return 0


def _stored(password: str) -> str:
    """An account as prosody stores it: RFC 5802's StoredKey and ServerKey, from which no password can be found."""
    salt = secrets.token_hex(16)
    salted = hashlib.pbkdf2_hmac("sha1", password.encode(), salt.encode(), _ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha1")
    fields = {
        "salt": f'"{salt}"',
        "iteration_count": str(_ITERATIONS),
        "stored_key": f'"{hashlib.sha1(client_key).hexdigest()}"',
        "server_key": f'"{hmac.digest(salted, b"Server Key", "sha1").hex()}"',
    }
    return "return {" + " ".join(f'["{key}"] = {value};' for key, value in fields.items()) + "};\n"


def _file_name(name: str) -> str:
    """As prosody spells a name: every byte that is neither letter nor digit by its code."""
    return re.sub(r"[^A-Za-z0-9]", lambda found: f"%{ord(found[0]):02x}", name)


def _lua(text: str) -> str:
    """A text as a Lua literal, byte by byte where a byte could mean something to Lua."""
    plain = re.compile(rb"[A-Za-z0-9/_. -]")
    shown = (chr(byte) if plain.match(bytes([byte])) else f"\\{byte:03d}" for byte in os.fsencode(text))
    return f'"{"".join(shown)}"'
