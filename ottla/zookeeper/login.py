"""The login of a client at the coordinator, from a Java login configuration (edge)."""

from pathlib import Path
from typing import Final

from coordination.client import Login
from ottla.client.errors import ConfigurationError
from trust.jaas import DIGEST_MODULE, JaasError, parse_login_file

SECTION: Final = "Client"
"""Section of the file, as for ZooKeeper's clients."""


def load_login(file: Path | str | None) -> Login | None:
    """Return the login in a file; None without a file.

    Raises:
        ConfigurationError: the file cannot be read, or has no login for DIGEST-MD5.
    """
    if file is None:
        return None
    try:
        modules = parse_login_file(Path(file).read_text(encoding="utf-8")).get(SECTION, ())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8") from None
    except JaasError as error:
        raise ConfigurationError(f"{file} {error}") from None
    found = modules[0].login if [each.name for each in modules] == [DIGEST_MODULE] else None
    if found is None:
        raise ConfigurationError(
            f"{file} must have a section {SECTION} with {DIGEST_MODULE}, username and password"
        )
    return Login(user=found[0], password=found[1])
