"""The folder of a secured cluster: authority, certificates, passwords, configurations (edge).

Three kinds of files are kept: the authority, the passwords, and each broker's certificate. Each
start writes all others. Files are replaced as a whole, so that a crash leaves the old one or the
new one, and the next start makes the missing ones.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.config.properties import format_properties
from ottla.cli.failure import EXIT_USAGE, CommandError
from ottla.cli.up.authority import KeyPair, is_current, is_for, issue, new_authority
from ottla.cli.up.events import Renewed
from ottla.cli.up.plan import ClusterPlan
from ottla.cli.up.private_file import (
    PUBLIC_MODE,
    make_private_folder,
    remove_temporary_files,
    write_private,
)
from ottla.cli.up.secured import (
    ADMIN,
    AT_COORDINATOR,
    CLIENT,
    FOLDER,
    USERS,
    Files,
    Security,
    client_settings,
    librdkafka_settings,
)

PASSWORD_BYTES: Final = 24
MAX_FILE_BYTES: Final = 65_536

Report = Callable[[Renewed], None]


def open_security(
    directory: Path,
    *,
    servers: Sequence[str],
    hosts: Sequence[str],
    now: datetime.datetime,
    report: Report,
) -> Security:
    """Return the security of the cluster in `directory`; make and renew all that is missing.

    Each of `servers`, the brokers and perhaps the coordinator, gets a certificate for `hosts`.

    Raises:
        CommandError: the folder or a file in it cannot be used; the message names the remedy.
    """
    _require_cryptography()
    files = Files(directory.resolve() / FOLDER)
    try:
        make_private_folder(files.folder)
        remove_temporary_files(files.folder)
        authority = _authority(files, now, report)
        write_private(files.trusted, authority.certificate_pem(), mode=PUBLIC_MODE)
        for server in servers:
            _certify(files, server, authority, hosts, now, report)
        return Security(files, _passwords(files))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"cannot use {error.filename or files.folder}: {reason}") from error


def require_copies(directory: Path) -> None:
    """Check that a machine that joins has the identity of its cluster.

    Raises:
        CommandError: it has not; a new one would be of no use.
    """
    files = Files(directory.resolve() / FOLDER)
    for path in files.copied:
        if not path.exists():
            raise CommandError(
                f"{path} is missing: copy {' and '.join(each.name for each in files.copied)} "
                f"from the folder {FOLDER} of the machine with the coordinator to {files.folder}",
                EXIT_USAGE,
            )


def refuse_secured(directory: Path) -> None:
    """Refuse to run a secured cluster without --secure: its data would be open to everybody.

    Raises:
        CommandError: the cluster in `directory` is secured.
    """
    folder = directory / FOLDER
    if folder.exists():
        raise CommandError(
            f"the cluster in {directory} is secured: add --secure, or remove {folder} to open it "
            "to every user of this machine",
            EXIT_USAGE,
        )


def write_configurations(plan: ClusterPlan) -> None:
    """Write the configurations of the brokers and of the clients of a secured cluster.

    Raises:
        CommandError: a file cannot be written.
    """
    security = plan.security
    assert security is not None, "the plan is of a secured cluster"
    files = security.files
    try:
        for broker in plan.brokers:
            text = format_properties(broker.settings)
            write_private(files.properties(broker.name), text.encode("ascii"))
        for user in (ADMIN, CLIENT):
            text = format_properties(client_settings(security, user, plan.bootstrap))
            write_private(files.properties(user), text.encode("ascii"))
            settings = librdkafka_settings(security, user, plan.bootstrap)
            # librdkafka knows no escapes.
            lines = "".join(f"{key}={value}\n" for key, value in settings.items())
            write_private(files.librdkafka(user), lines.encode())
    except OSError as error:
        raise CommandError(f"cannot write to {files.folder}: {error.strerror}") from error


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise CommandError(
            "--secure needs the package cryptography: pip install 'ottla[security]'", EXIT_USAGE
        ) from None


def _authority(files: Files, now: datetime.datetime, report: Report) -> KeyPair:
    path = files.authority
    data = _read(path)
    if data is None:
        found = new_authority(now)
        write_private(path, found.pem())
        return found
    try:
        found = KeyPair.parse(data)
    except ValueError:
        raise CommandError(
            f"{path} is damaged: restore it, or delete it for a new authority, whose certificate "
            f"{files.trusted.name} all clients then need"
        ) from None
    if not is_current(found, now):
        found = new_authority(now, found)
        write_private(path, found.pem())
        report(Renewed(str(files.trusted), is_authority=True))
    return found


def _certify(
    files: Files,
    server: str,
    authority: KeyPair,
    hosts: Sequence[str],
    now: datetime.datetime,
    report: Report,
) -> None:
    """Keep the certificate of a server, or issue another one."""
    path = files.store(server)
    data = _read(path)
    if data is not None:
        try:
            found = KeyPair.parse(data)
        except ValueError:
            # Nothing is lost: clients trust the authority.
            pass
        else:
            if is_current(found, now) and is_for(found, authority, hosts):
                return
        report(Renewed(str(path), is_authority=False))
    made = issue(authority, server, hosts, now)
    write_private(path, made.pem())


def _passwords(files: Files) -> Mapping[str, str]:
    data = _read(files.passwords)
    found: object = {}
    try:
        if data is not None:
            found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(map(_is_password, found.values())):
        raise CommandError(
            f"{files.passwords} is damaged: restore it, or delete it for new passwords, which "
            "clients then need"
        )
    passwords = {
        user: found.get(user) or secrets.token_urlsafe(PASSWORD_BYTES)
        for user in (*USERS, AT_COORDINATOR)
    }
    if passwords != found:
        write_private(files.passwords, json.dumps(passwords, indent=1).encode() + b"\n")
    return passwords


def _is_password(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and bool(value)


def _read(path: Path) -> bytes | None:
    """Return the content of a file, None if it does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
