"""Reads the login of a client at the coordinator from a Java login configuration (edge)."""

from pathlib import Path
from typing import Final

from trust.jaas import DIGEST_MODULE, JaasError, parse_login_file

CLIENT_SECTION: Final = "Client"
"""Section of the file, as for ZooKeeper's clients."""


def read_client_login(path: Path) -> tuple[str, str]:
    """Return user and password of the section `Client`, for DIGEST-MD5.

    Raises:
        JaasError: the file cannot be read, or has no such login. The message follows its name.
    """
    try:
        modules = parse_login_file(path.read_text(encoding="utf-8")).get(CLIENT_SECTION, ())
    except OSError as error:
        raise JaasError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JaasError("is not UTF-8") from None
    found = modules[0].login if [each.name for each in modules] == [DIGEST_MODULE] else None
    if found is None:
        raise JaasError(
            f"must have a section {CLIENT_SECTION} with {DIGEST_MODULE}, username and password"
        )
    return found
