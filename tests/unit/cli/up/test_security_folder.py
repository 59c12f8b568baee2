"""The folder of a secured cluster: `ottla.cli.up.security_folder`, and its certificates."""

import datetime
import json
import os
import ssl
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.failure import CommandError
from ottla.cli.up import private_file, security_folder
from ottla.cli.up.events import Renewed
from ottla.cli.up.plan import make_plan
from ottla.cli.up.secured import Security, hosts_of
from ottla.cli.up.security_folder import open_security, refuse_secured, write_configurations
from tests.unit.trust.test_tls_store import hands_shake

pytest.importorskip("cryptography")

NOW = datetime.datetime.now(datetime.UTC)
BROKERS = ["broker-1", "broker-2"]
DAY = datetime.timedelta(days=1)


class Opened:
    """The folder after a start at `now`."""

    def __init__(
        self, directory: Path, now: datetime.datetime = NOW, host: str | None = None
    ) -> None:
        self.renewed: list[str] = []
        self.security = open_security(
            directory, servers=BROKERS, hosts=hosts_of(host), now=now, report=self._report
        )

    def _report(self, event: Renewed) -> None:
        self.renewed.append(Path(event.path).name)


def contents(security: Security) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in security.files.folder.iterdir()}


def is_accepted(security: Security, trusted: bytes, host: str = "localhost") -> bool:
    """Whether a client that trusts `trusted` accepts the certificate of a broker."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(security.files.store("broker-1"))
    client = ssl.create_default_context(cadata=trusted.decode())
    # Python 3.13 demands this of certificates by default.
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        return hands_shake(server, client, host)
    except ssl.SSLCertVerificationError:
        return False


def test_new_folder_is_closed_to_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "security"
    folder.mkdir(mode=0o755)
    opened = Opened(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert opened.renewed == []
    assert len(set(opened.security.passwords.values())) == 4


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "kafka.example"])
def test_certificates_are_for_every_way_to_a_broker(tmp_path: Path, host: str) -> None:
    security = Opened(tmp_path, host="kafka.example").security
    assert is_accepted(security, security.files.trusted.read_bytes(), host)
    assert not is_accepted(security, security.files.trusted.read_bytes(), "other.example")


def test_restart_keeps_everything(tmp_path: Path) -> None:
    before = contents(Opened(tmp_path).security)
    again = Opened(tmp_path, NOW + 600 * DAY)
    assert contents(again.security) == before
    assert again.renewed == []


def test_certificates_are_renewed_before_they_end(tmp_path: Path) -> None:
    before = contents(Opened(tmp_path, NOW - 650 * DAY).security)
    again = Opened(tmp_path)
    assert again.renewed == ["broker-1.pem", "broker-2.pem"]
    after = contents(again.security)
    assert after["ca.pem"] == before["ca.pem"]
    assert is_accepted(again.security, before["ca.pem"])
    # A clock that was wrong at the first start.
    assert Opened(tmp_path, NOW - 100 * DAY).renewed[-1] == "broker-2.pem"


def test_clients_keep_their_copy_of_the_authority_until_it_ends(tmp_path: Path) -> None:
    before = contents(Opened(tmp_path, NOW - 3_600 * DAY).security)
    again = Opened(tmp_path)
    assert again.renewed == ["ca.pem", "broker-1.pem", "broker-2.pem"]
    after = contents(again.security)
    assert after["ca.pem"] != before["ca.pem"]
    assert is_accepted(again.security, before["ca.pem"])
    assert is_accepted(again.security, after["ca.pem"])


def test_other_host_or_damage_renews_a_certificate(tmp_path: Path) -> None:
    files = Opened(tmp_path).security.files
    assert Opened(tmp_path, host="kafka.example").renewed == ["broker-1.pem", "broker-2.pem"]
    store = files.store("broker-1").read_bytes()
    for damaged in (b"", b"x", store[: len(store) // 2], files.authority.read_bytes()):
        files.store("broker-2").write_bytes(damaged)
        assert Opened(tmp_path, host="kafka.example").renewed == ["broker-2.pem"]


@pytest.mark.parametrize("name", ["authority.pem", "passwords.json"])
def test_damaged_identities_are_refused_or_made_after_deletion(tmp_path: Path, name: str) -> None:
    folder = Opened(tmp_path).security.files.folder
    for damaged in (b"", b"x", (folder / name).read_bytes()[:-60], b'{"admin": 1}'):
        (folder / name).write_bytes(damaged)
        with pytest.raises(CommandError, match=f"{name} is damaged: restore it, or delete it"):
            Opened(tmp_path)
    (folder / name).unlink()
    again = Opened(tmp_path).security
    assert is_accepted(again, again.files.trusted.read_bytes())


def test_missing_password_is_made(tmp_path: Path) -> None:
    files = Opened(tmp_path).security.files
    files.passwords.write_text(json.dumps({"admin": "a", "broker": "b"}))
    passwords = Opened(tmp_path).security.passwords
    assert (passwords["admin"], passwords["broker"]) == ("a", "b")
    assert len(passwords["client"]) == 32


class Crash(BaseException):
    """The process dies."""


def test_start_after_a_crash_at_any_write_completes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = private_file.write_private
    crashes = 0
    while True:
        directory = tmp_path / str(crashes)
        directory.mkdir()
        left = [crashes]

        def dying(path: Path, data: bytes, left: list[int] = left, **mode: Any) -> None:
            if not left[0]:
                path.with_name(path.name + ".tmp").write_bytes(data[: len(data) // 2])
                raise Crash
            left[0] -= 1
            real(path, data, **mode)

        monkeypatch.setattr(security_folder, "write_private", dying)
        try:
            security = Opened(directory).security
            write_configurations(plan(directory, security))
            break
        except Crash:
            crashes += 1
        monkeypatch.undo()
        before = {each: each.read_bytes() for each in (directory / "security").glob("*[!p]")}
        security = Opened(directory).security
        write_configurations(plan(directory, security))
        assert not list(security.files.folder.glob("*.tmp"))
        assert is_accepted(security, security.files.trusted.read_bytes())
        # Identities of the first start are kept.
        assert all(path.read_bytes() == data for path, data in before.items())
    # Authority, its certificate, two brokers, passwords; configurations of brokers and clients.
    assert crashes == 5 + 2 + 4


def plan(directory: Path, security: Security) -> Any:
    return make_plan(
        directory, broker_ports=[1, 2], coordinator_port=3, overrides={}, security=security
    )


def test_unusable_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "security").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CommandError, match=r"cannot use .*security: Not a directory"):
        Opened(tmp_path)
    (tmp_path / "security").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(CommandError, match="it belongs to another user"):
        Opened(tmp_path)


def test_secured_cluster_is_not_opened_by_mistake(tmp_path: Path) -> None:
    refuse_secured(tmp_path)
    Opened(tmp_path)
    with pytest.raises(CommandError, match="add --secure, or remove"):
        refuse_secured(tmp_path)


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(CommandError, match=r"pip install 'ottla\[security\]'"):
        Opened(tmp_path)
