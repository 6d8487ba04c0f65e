"""The first words with a server, to learn what is wrong before a library waits for ever or says nothing.

Blocking, with plain sockets: connect, open a stream, ask for TLS, look at the certificate, hang up. No credentials are
sent.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from pathlib import Path
from xml.sax.saxutils import quoteattr

from mosaic_protocol.plain_text import one_line
from spade_bdi_rl_worker.xmpp.contract import ServerError

_MOST = 16 * 1024
_SHOWN = 60
_STREAM = (
    "<?xml version='1.0'?><stream:stream to={domain} xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
)
_STARTTLS = b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
# A server may give the namespaces any prefix.
_FEATURES = re.compile(rb"</(\w+:)?features\s*>|<(\w+:)?features\s*/>")
_ERROR = re.compile(rb"<(\w+:)?error[\s>]")
_ERROR_END = re.compile(rb"</(\w+:)?error\s*>")
_OPENED = re.compile(rb"<(\w+:)?stream[\s>]")
_PROCEED = re.compile(rb"<(\w+:)?proceed[^>]*>")
_FAILURE = re.compile(rb"<(\w+:)?failure[^>]*>")
_UNTRUSTED = {18, 19, 20, 21}  # OpenSSL: self-signed, or an authority that nobody here knows
_WRONG_NAME = 62
_EXPIRED = 10


def trust(certificate: Path | None) -> ssl.SSLContext:
    """What a client believes: this certificate or authority alone, or those of the system. Raises
    :class:`ServerError`."""
    try:
        # With a file, the authorities of the system are not loaded: nobody else can vouch for the server.
        return ssl.create_default_context(cafile=None if certificate is None else str(certificate))
    except (OSError, ValueError) as error:
        reason = "it has no certificate in PEM form" if isinstance(error, ssl.SSLError) else one_line(str(error))
        raise ServerError(
            f"The certificate file {certificate} cannot be used: {reason}. Give the PEM file of the authority that "
            "signed the server's certificate."
        ) from error


def knock(host: str, port: int, domain: str, context: ssl.SSLContext, timeout: float) -> None:
    """Raises :class:`ServerError` with what is wrong; returns when only the login can still fail."""
    deadline = time.monotonic() + timeout
    with _connected(host, port, timeout) as connection:
        talk = _Talk(connection, f"{host}:{port}", deadline)
        talk.send(_STREAM.format(domain=quoteattr(domain)).encode())
        features = talk.read_until(_FEATURES, _ERROR_END)
        _require_a_stream(features, talk.where, domain)
        if b"urn:ietf:params:xml:ns:xmpp-tls" not in features:
            raise ServerError(
                f"The XMPP server at {talk.where} offers no TLS, so others could read the password on its way. Turn "
                "STARTTLS on in its settings."
            )
        talk.send(_STARTTLS)
        if not _PROCEED.search(talk.read_until(_PROCEED, _FAILURE)):
            raise ServerError(
                f"The XMPP server at {talk.where} offers TLS but refuses to begin with it. Check its certificate and "
                "its log."
            )
        _shake_hands(connection, talk, domain, context)


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    where = f"{host}:{port}"
    try:
        return socket.create_connection((host, port), timeout)
    except socket.gaierror as error:
        raise ServerError(
            f"The XMPP server's host {host} is unknown ({error.strerror}). Check the part of the JID behind the @, or "
            "give the server's host."
        ) from None
    except TimeoutError:
        raise ServerError(
            f"Nothing answers at {where} within {timeout:.0f} s: the machine of the XMPP server is down, or a firewall "
            "is in between. Check host, port and network."
        ) from None
    except OSError as error:
        raise ServerError(
            f"No XMPP server listens at {where} ({error.strerror or error}). Start it, or check its host and port."
        ) from None


class _Talk:
    """Reads and writes until a deadline."""

    def __init__(self, connection: socket.socket, where: str, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._began = time.monotonic()
        self.where = where

    def send(self, data: bytes) -> None:
        self._limit()
        try:
            self._connection.sendall(data)
        except TimeoutError:
            raise self.frozen() from None
        except OSError:
            raise self._hung_up(b"") from None

    def read_until(self, *ends: re.Pattern[bytes]) -> bytes:
        said = b""
        while not any(end.search(said) for end in ends):
            self._limit()
            try:
                more = self._connection.recv(4096)
            except TimeoutError:
                raise self.frozen() from None
            except OSError:
                more = b""
            said += more
            if not more or len(said) > _MOST:
                raise self._hung_up(said)
            if not said.lstrip().startswith(b"<"):
                raise _no_xmpp(self.where, said)
        return said

    def frozen(self) -> ServerError:
        waited = time.monotonic() - self._began
        return ServerError(
            f"The XMPP server at {self.where} takes connections but does not answer ({waited:.0f} s): it is frozen or "
            "overloaded. Restart it, then try again."
        )

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self.frozen()
        self._connection.settimeout(left)

    def _hung_up(self, said: bytes) -> ServerError:
        if said:
            return _no_xmpp(self.where, said)
        return ServerError(
            f"What listens at {self.where} hung up without a word: it is no XMPP server, or one that refuses this "
            "machine. Check host and port, and the server's log."
        )


def _require_a_stream(said: bytes, where: str, domain: str) -> None:
    if not _OPENED.search(said):
        raise _no_xmpp(where, said)
    if b"host-unknown" in said:
        raise ServerError(
            f"The XMPP server at {where} does not serve the domain {domain}. Check the part of the JID behind the @."
        )
    if error := _ERROR.search(said):
        raise ServerError(
            f"The XMPP server at {where} refuses to talk: {_shown(said[error.end() :])}. Its log says more."
        )


def _no_xmpp(where: str, said: bytes) -> ServerError:
    return ServerError(
        f"What listens at {where} is no XMPP server; it says {_shown(said)!r}. Another program has taken the port, or "
        "the port is not the one for clients (5222 on most servers)."
    )


def _shown(said: bytes) -> str:
    return one_line(said.decode(errors="replace"))[:_SHOWN]


def _shake_hands(connection: socket.socket, talk: _Talk, domain: str, context: ssl.SSLContext) -> None:
    try:
        context.wrap_socket(connection, server_hostname=domain).close()
    except ssl.SSLCertVerificationError as error:
        raise bad_certificate(talk.where, domain, error) from None
    except TimeoutError:
        raise talk.frozen() from None
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ServerError(
            f"The XMPP server at {talk.where} and this machine agree on no encryption ({reason or error}). Check the "
            "TLS settings and the certificate of the server."
        ) from None


def bad_certificate(where: str, domain: str, error: ssl.SSLCertVerificationError) -> ServerError:
    """Which of the things is wrong that people can do something about."""
    what = f"The certificate of the XMPP server at {where}"
    if error.verify_code == _EXPIRED:
        return ServerError(f"{what} has expired. Renew it on the server.")
    if error.verify_code == _WRONG_NAME:
        return ServerError(
            f"{what} is not for {domain}. Use a JID with the name in the certificate, or give the server one for "
            f"{domain}."
        )
    if error.verify_code in _UNTRUSTED:
        return ServerError(
            f"{what} is not trusted ({error.verify_message}): anyone could have made it. Give the file of the "
            "authority that signed it, or the certificate itself, as CA file."
        )
    return ServerError(f"{what} is not valid: {error.verify_message}. Replace it on the server.")
