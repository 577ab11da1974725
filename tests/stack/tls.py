"""A certificate authority made on the fly, and key and certificate of a server on the loopback address."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def make_tls_files(folder: Path) -> tuple[Path, Path]:
    """Write ``ca.pem`` (for clients) and ``server.pem`` (key and certificate for 127.0.0.1 and localhost).

    Returns:
        The paths of both files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_file, server_file = folder / "ca.pem", folder / "server.pem"
    if ca_file.exists() and server_file.exists():
        return ca_file, server_file
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test stack CA")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    ca = _certificate(ca_name, ca_name, ca_key.public_key(), x509.BasicConstraints(ca=True, path_length=0))
    server = _certificate(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]),
        ca_name,
        key.public_key(),
        x509.BasicConstraints(ca=False, path_length=None),
    ).add_extension(x509.SubjectAlternativeName(names), critical=False)
    ca_file.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server_pem = server.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    server_file.touch(mode=0o600)
    server_file.write_bytes(key_pem + server_pem)
    return ca_file, server_file


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, constraints: x509.BasicConstraints
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(constraints, critical=True)
    )
