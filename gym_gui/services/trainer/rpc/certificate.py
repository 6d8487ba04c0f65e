"""The certificate of a daemon that listens on TCP: the user's own pair, or one that the daemon makes for itself.

Clients insist on exactly this certificate (:attr:`MosaicPaths.certificate`), so no authority has to sign it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gym_gui.services.trainer.errors import CannotListenError
from mosaic_protocol.paths import MosaicPaths

_LIFETIME = datetime.timedelta(days=3650)
_RENEWED_BEFORE = datetime.timedelta(days=30)


def server_credentials(paths: MosaicPaths, host: str, cert: str = "", key: str = "") -> grpc.ServerCredentials:
    """What a server on ``host`` shows. The certificate lies in the data root afterwards, where clients find it.

    Raises :class:`CannotListenError` with a sentence.
    """
    if cert:
        pair = _given(cert, key)
        # Only the daemon's own: with the authority's beside it, clients would trust whatever else that signed.
        leaf = x509.load_pem_x509_certificates(pair[1])[0]
        _write(paths.certificate, leaf.public_bytes(serialization.Encoding.PEM), 0o644)
    else:
        pair = _own(paths, host)
    return grpc.ssl_server_credentials([pair])


def _given(cert: str, key: str) -> tuple[bytes, bytes]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)  # gRPC would not say what is wrong with them
        return Path(key).read_bytes(), Path(cert).read_bytes()
    except OSError as error:
        raise CannotListenError(
            f"cannot use the certificate {cert} with the key {key}: {error.strerror or error}. Give a PEM certificate "
            "chain as --tls-cert and the PEM private key that belongs to it as --tls-key."
        ) from error


def _own(paths: MosaicPaths, host: str) -> tuple[bytes, bytes]:
    """The pair of this data root, made when there is none that fits."""
    names = {"localhost", "127.0.0.1", "::1", host}
    if socket.gethostname().isascii():
        names.add(socket.gethostname())
    with suppress(OSError, ValueError, TypeError, x509.ExtensionNotFound):
        pair = paths.certificate_key.read_bytes(), paths.certificate.read_bytes()
        if _fits(pair, names):
            return pair
    pair = _made(names)
    _write(paths.certificate_key, pair[0], 0o600)
    _write(paths.certificate, pair[1], 0o644)
    return pair


def _fits(pair: tuple[bytes, bytes], names: set[str]) -> bool:
    """Raises ValueError for what is no pair."""
    certificate = x509.load_pem_x509_certificate(pair[1])
    key = serialization.load_pem_private_key(pair[0], None)
    told = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    covered = {str(name.value) for name in told}
    fresh = certificate.not_valid_after_utc - _RENEWED_BEFORE > datetime.datetime.now(datetime.UTC)
    return fresh and names <= covered and key.public_key() == certificate.public_key()


def _made(names: set[str]) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "MOSAIC trainer daemon")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of other machines differ
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in sorted(names)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    unencrypted = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, unencrypted)
    return secret, certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    draft.replace(path)
