"""A key and a certificate for the server of one run, made in memory.

The client trusts exactly this certificate, so no authority signs it. The key never lies on a disk: the server reads it
from a descriptor that it inherits.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_BACKDATED = datetime.timedelta(days=1)  # the clock may be set back while a run starts
_LIFETIME = datetime.timedelta(days=3650)  # a run may take months; nothing outside it trusts this


@dataclass(frozen=True)
class KeyPair:
    """Both in PEM."""

    key: bytes = field(repr=False)
    certificate: bytes


def make_pair(domain: str) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(secret, certificate.public_bytes(serialization.Encoding.PEM))


@contextmanager
def in_memory(content: bytes) -> Iterator[int]:
    """A descriptor of a file that exists in memory only. A process that inherits it reads ``/proc/self/fd/<it>``."""
    descriptor = os.memfd_create("mosaic-xmpp", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)
