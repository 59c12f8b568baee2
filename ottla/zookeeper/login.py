"""The login of a client at the coordinator, from a Java login configuration (edge)."""

from pathlib import Path

from coordination.client import Login
from ottla.client.errors import ConfigurationError
from trust.jaas import JaasError
from trust.login_file import read_client_login


def load_login(file: Path | str | None) -> Login | None:
    """Return the login in a file; None without a file.

    Raises:
        ConfigurationError: the file cannot be read, or has no login for DIGEST-MD5.
    """
    if file is None:
        return None
    try:
        user, password = read_client_login(Path(file))
    except JaasError as error:
        raise ConfigurationError(f"{file} {error}") from None
    return Login(user=user, password=password)
