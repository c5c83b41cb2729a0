"""Certificates for the tests of TLS: an authority, and what it signs."""

import datetime
import ipaddress
import os

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.utcnow()
DAY = datetime.timedelta(days=1)


def name_of(cn, organisation):
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)] if organisation else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, cn)])


def pem(cert):
    return cert.public_bytes(serialization.Encoding.PEM)


def key_pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


class Authority:
    """Signs certificates; its own is in the file `path`."""

    def __init__(self, directory, name="authority"):
        self.directory = directory
        self.path = directory / f"{name}.pem"
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = name_of(name, None)
        self.cert = self.sign(self.name, self.key, NOW - DAY, NOW + 30 * DAY,
                              [(x509.BasicConstraints(ca=True, path_length=None), True)])
        self.path.write_bytes(pem(self.cert))

    def sign(self, subject, key, begins, expires, extensions):
        builder = x509.CertificateBuilder(
            self.name, subject, key.public_key(), x509.random_serial_number(), begins, expires)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, cn, *others, organisation=None, days=30, addresses=("127.0.0.1",),
              file=None):
        """The paths of a certificate and its key. others: further names; days: until it expires."""
        names = [x509.IPAddress(ipaddress.ip_address(a)) for a in addresses]
        for other in others:
            kind = (x509.UniformResourceIdentifier if "://" in other
                    else x509.RFC822Name if "@" in other else x509.DNSName)
            names.append(kind(other))
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self.sign(name_of(cn, organisation), key, NOW - 60 * DAY, NOW + days * DAY,
                         [(x509.SubjectAlternativeName(names), False)] if names else [])
        return self.write(file or cn.replace("/", "_"), pem(cert), key_pem(key))

    def write(self, file, cert, key):
        paths = self.directory / f"{file}.crt", self.directory / f"{file}.key"
        for path, content in zip(paths, (cert, key)):
            new = path.with_suffix(path.suffix + ".new")
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(content)
            new.rename(path)
        return paths
