# SPDX-License-Identifier: Apache-2.0
"""A private CA for the lab, and leaf certificates for whatever name a client asks for."""

import datetime
import ipaddress
import os
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_NAME = "Sallyport Lab CA"


def _now():
    return datetime.datetime.utcnow()


def _write(path, data, mode=0o600):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as out:
        out.write(data)


def _pem_key(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                             serialization.NoEncryption())


def make_ca(folder):
    """Writes ca.pem and ca.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CA_NAME)])
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - datetime.timedelta(days=1))
        .not_valid_after(_now() + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256()))
    _write(f"{folder}/ca.pem", certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    _write(f"{folder}/ca.key", _pem_key(key))


class Authority:
    """Mints one certificate per name, on first use."""

    def __init__(self, folder):
        self.folder = folder
        with open(f"{folder}/ca.pem", "rb") as file:
            self.certificate = x509.load_pem_x509_certificate(file.read())
        with open(f"{folder}/ca.key", "rb") as file:
            self.key = serialization.load_pem_private_key(file.read(), None)
        self.contexts = {}

    def write_leaf(self, name, path):
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            alternative = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        leaf = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
            .issuer_name(self.certificate.subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_now() - datetime.timedelta(days=1))
            .not_valid_after(_now() + datetime.timedelta(days=20))
            .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, False, False, False, False, False, False, False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256()))
        _write(f"{path}.pem", leaf.public_bytes(serialization.Encoding.PEM) +
               self.certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        _write(f"{path}.key", _pem_key(key))

    def context_for(self, name):
        if name not in self.contexts:
            if len(self.contexts) > 1000:
                raise RuntimeError("too many names")
            path = f"{self.folder}/leaf-{len(self.contexts)}"
            self.write_leaf(name, path)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{path}.pem", f"{path}.key")
            context.set_alpn_protocols(["http/1.1"])
            self.contexts[name] = context
        return self.contexts[name]
