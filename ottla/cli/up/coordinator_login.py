"""The password of a cluster's coordinator, in a file that only its user can read (edge).

Each start makes a new one: a coordinator and its brokers never outlive their supervisor. A cluster
over several machines keeps its password, because the other machines have a copy.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from trust.jaas import DIGEST_MODULE, JaasError, parse_login_file

FILE: Final = "coordinator-login.conf"
USER: Final = "broker"
PASSWORD_BYTES: Final = 32


def write_login(directory: Path, password: str | None = None) -> Path:
    """Write a login configuration for both sides, with a new password by default; return its path.

    Raises:
        OSError: the file cannot be written.
    """
    password = password or secrets.token_urlsafe(PASSWORD_BYTES)
    path = directory / FILE
    temporary = path.with_name(FILE + ".tmp")
    # A file of another user, or with other rights, is never written to.
    temporary.unlink(missing_ok=True)
    with open(temporary, "x", encoding="ascii", opener=_private) as file:
        file.write(
            f'Server {{ {DIGEST_MODULE} required user_{USER}="{password}"; }};\n'
            f'Client {{ {DIGEST_MODULE} required username="{USER}" password="{password}"; }};\n'
        )
    temporary.replace(path)
    return path


def kept_password(directory: Path) -> str | None:
    """Return the password of the previous start, None if there is none that can be used.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        modules = parse_login_file((directory / FILE).read_text(encoding="ascii"))["Client"]
    except (FileNotFoundError, UnicodeDecodeError, JaasError, KeyError):
        return None
    return next((each.login[1] for each in modules if each.login is not None), None)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
