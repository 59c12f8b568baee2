"""A password for a command (edge): from a file, the environment, or a prompt.

Never from an argument, which every user of the machine could read in the list of processes.
"""

import getpass
import os
import sys
from pathlib import Path
from typing import Final

from ottla.cli.failure import EXIT_FAILED, EXIT_USAGE, CommandError, usage_error

VARIABLE: Final = "OTTLA_USER_PASSWORD"
STANDARD_INPUT: Final = Path("-")
MAX_CHARACTERS: Final = 4_096


def read_password(file: Path | None, user: str) -> str:
    """Return the password of `user`: the first line of `file`, the variable's value, or typed.

    Raises:
        CommandError: there is no password, or two typed ones differ.
    """
    if file is not None:
        password = _first_line(file)
    elif VARIABLE in os.environ:
        password = os.environ[VARIABLE]
    elif sys.stdin is not None and sys.stdin.isatty():
        password = _typed(user)
    else:
        usage_error(f"the password is missing: use --password-file FILE, or set {VARIABLE}.")
    if not password:
        usage_error("the password must not be empty.")
    if len(password) > MAX_CHARACTERS:
        usage_error(f"the password must not have more than {MAX_CHARACTERS:,} characters.")
    return password


def _first_line(file: Path) -> str:
    try:
        if file == STANDARD_INPUT:
            if sys.stdin is None:
                usage_error("standard input is closed: name a file.")
            line = sys.stdin.readline(MAX_CHARACTERS + 2)
        else:
            with file.open(encoding="utf-8") as opened:
                line = opened.readline(MAX_CHARACTERS + 2)
    except UnicodeDecodeError:
        # That error contains the password.
        raise CommandError(f"{file} is not text in UTF-8.", EXIT_USAGE) from None
    return line.rstrip("\r\n")


def _typed(user: str) -> str:
    try:
        password = getpass.getpass(f"Password of {user}: ")
        if getpass.getpass("The same again: ") != password:
            raise CommandError("the passwords differ: nothing was changed.", EXIT_FAILED)
    except EOFError:
        usage_error("no password was typed.")
    except UnicodeDecodeError:
        raise CommandError(
            "the typed password is not text in the encoding of this locale.", EXIT_USAGE
        ) from None
    return password
