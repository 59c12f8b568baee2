"""Certificate authorities and certificates for tests, made by openssl (edge)."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

DAYS = ("-days", "2")
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificate:
    """PEM files of a certificate and its key, and of both in one."""

    certificate: Path
    key: Path
    store: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority; clients trust `own.certificate`."""

    own: Certificate

    @classmethod
    def make(cls, directory: Path, name: str = "ca") -> Authority:
        """Make an authority in a new folder."""
        folder = directory / name
        folder.mkdir(parents=True)
        return cls(_self_signed(folder, "ca", f"/CN={name}"))

    def issue(
        self,
        name: str,
        subject: str | None = None,
        hosts: str = "IP:127.0.0.1,DNS:localhost",
    ) -> Certificate:
        """Return a new certificate for `hosts`; the same name replaces its files."""
        folder = self.own.key.parent
        made = _paths(folder, name)
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={hosts}\n")
        _openssl(
            "req", *NEW_KEY, "-utf8", "-subj", subject or f"/CN={name}",
            "-keyout", str(made.key), "-out", str(request),
        )  # fmt: skip
        _openssl(
            "x509", "-req", *DAYS, "-in", str(request), "-CA", str(self.own.certificate),
            "-CAkey", str(self.own.key), "-CAcreateserial", "-extfile", str(extensions),
            "-out", str(made.certificate),
        )  # fmt: skip
        return _stored(made)

    def context(self, client: Certificate | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and shows `client`."""
        context = ssl.create_default_context(cafile=str(self.own.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context


def stores_of_java(made: Certificate, authority: Authority, password: str) -> tuple[Path, Path]:
    """Return a JKS store with a key and its chain, and one that trusts the authority."""
    folder, name = made.key.parent, made.key.stem
    exported, key_store = folder / f"{name}.p12", folder / f"{name}.jks"
    trust_store = folder / f"{name}-trust.jks"
    _openssl(
        "pkcs12", "-export", "-in", str(made.store), "-out", str(exported),
        "-passout", f"pass:{password}",
    )  # fmt: skip
    _keytool(
        "-importkeystore", "-srckeystore", str(exported), "-srcstorepass", password,
        "-destkeystore", str(key_store), "-deststoretype", "JKS", "-deststorepass", password,
    )  # fmt: skip
    _keytool(
        "-importcert", "-file", str(authority.own.certificate), "-keystore", str(trust_store),
        "-storetype", "JKS", "-storepass", password,
    )  # fmt: skip
    return key_store, trust_store


def self_signed(directory: Path, host: str = "127.0.0.1") -> Certificate:
    """Return a certificate for `host` that is its own authority."""
    return _self_signed(directory, "cert", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}")


def _self_signed(folder: Path, name: str, subject: str, *more: str) -> Certificate:
    made = _paths(folder, name)
    _openssl(
        "req", "-x509", *NEW_KEY, *DAYS, "-subj", subject, *more,
        "-keyout", str(made.key), "-out", str(made.certificate),
    )  # fmt: skip
    return _stored(made)


def _paths(folder: Path, name: str) -> Certificate:
    return Certificate(folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.pem")


def _stored(made: Certificate) -> Certificate:
    made.store.write_text(made.key.read_text() + made.certificate.read_text())
    return made


def _keytool(*arguments: str) -> None:
    subprocess.run(["keytool", "-noprompt", *arguments], check=True, capture_output=True)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
