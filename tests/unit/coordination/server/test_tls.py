"""TLS contexts of a coordinator that follow their files: `coordination.server.tls`."""

from __future__ import annotations

import errno
import os
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from coordination.server.coordinator_config import Address, ClientAuth, TlsConfig
from coordination.server.tls import RETRY_DELAY_S, ServerTls, make_context
from tests.certificates import Authority, Certificate, needs_openssl
from tests.waiting import until_sync

pytestmark = needs_openssl

OLD, NEW = "old-s3cret", "new-s3cret"


@pytest.fixture
def own(tmp_path: Path) -> Certificate:
    return Authority.make(tmp_path).issue("own")


def encrypt(own: Certificate, password: str) -> None:
    """Replace the key by the same one under a password."""
    made = own.key.with_suffix(".new")
    subprocess.run(
        ["openssl", "pkey", "-in", str(own.store), "-aes256", "-passout", f"pass:{password}",
         "-out", str(made)],
        check=True,
        capture_output=True,
    )  # fmt: skip
    made.rename(own.key)


def config(own: Certificate, password_file: Path | None = None) -> TlsConfig:
    return TlsConfig(
        listen=Address("127.0.0.1", 0),
        certificate_file=own.certificate,
        key_file=own.key,
        key_password_file=password_file,
        ca_file=None,
        client_auth=ClientAuth.NONE,
    )


def test_a_new_password_counts_that_is_written_after_the_new_key(
    own: Certificate, tmp_path: Path
) -> None:
    password_file = tmp_path / "password"
    password_file.write_text(OLD)
    encrypt(own, OLD)
    tls = ServerTls(config(own, password_file), time.monotonic)
    before = tls.context()
    encrypt(own, NEW)
    assert tls.context() is before, "the key does not open with the old password"
    password_file.write_text(NEW)
    assert tls.context() is not before


def pass_a_tick(path: Path) -> None:
    """Wait until the clock of the file system is past the last change of a file.

    Before Linux 6.13 that clock advances every few milliseconds only.
    """
    probe = path.with_name("probe")

    def is_past() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns > path.stat().st_ctime_ns

    until_sync(is_past, "the clock of the file system")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_a_file_counts_once_it_can_be_read(
    own: Certificate, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    now_s = 0.0
    attempts = []

    def refuse(*_: object) -> None:
        attempts.append(now_s)
        raise OSError(number, os.strerror(number))

    tls = ServerTls(config(own), lambda: now_s)
    before = tls.context()
    pass_a_tick(own.certificate)
    os.utime(own.certificate, ns=(1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_cert_chain", refuse)
        for _ in range(100):
            assert tls.context() is before
    # Each attempt may open an encrypted key, at the cost of much processor time.
    assert attempts == [0.0]
    if number == errno.EACCES:
        pass_a_tick(own.certificate)
        own.certificate.chmod(0o640)
    else:
        assert tls.context() is before
        now_s = RETRY_DELAY_S
    # A lack of descriptors is no fault of the files: they need no change.
    assert tls.context() is not before


@pytest.mark.parametrize(
    ("password", "rule"),
    [(b"s3cret\xff", "is not UTF-8"), (b"s3cret" * 1000, "longer than 1024 bytes")],
)
def test_a_password_that_cannot_be_one_keeps_the_last_context(
    own: Certificate, tmp_path: Path, password: bytes, rule: str
) -> None:
    password_file = tmp_path / "password"
    password_file.write_text(OLD)
    encrypt(own, OLD)
    tls = ServerTls(config(own, password_file), time.monotonic)
    before = tls.context()
    password_file.write_bytes(password)
    assert tls.context() is before
    with pytest.raises(OSError, match=rule) as caught:
        make_context(config(own, password_file))
    assert "s3cret" not in str(caught.value)
