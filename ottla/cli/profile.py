"""Profiles: the settings of several clusters in one file (edge).

The file is `~/.config/ottla/profiles.toml`, or the one that OTTLA_PROFILES names. Each table is a
profile with the keys of `--command-config`; `default` at the top names the one to use without
`--profile`. No error quotes a value, because values may be secrets.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.cli.failure import EXIT_USAGE, CommandError

FILE_VARIABLE: Final = "OTTLA_PROFILES"
DEFAULT: Final = "default"

Properties = dict[str, str]


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of a file by name, and the name of the default one."""

    by_name: Mapping[str, Properties]
    default: str | None = None

    def chosen(self, name: str | None, *, may_default: bool) -> Properties:
        """Return the properties of the profile `name`; empty without one.

        Without a name it is the default profile, if `may_default`.

        Raises:
            CommandError: there is no such profile.
        """
        wanted = self.default if name is None and may_default else name
        if wanted is None:
            return {}
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise _failure(f"there is no profile {wanted}; the file has {known}")
        return self.by_name[wanted]


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the file, which need not exist."""
    if named := environment.get(FILE_VARIABLE):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~"), ".config")
    return Path(base, "ottla", "profiles.toml")


def load_profiles() -> Profiles:
    """Return the profiles of the user; none if there is no file.

    Raises:
        CommandError: the file cannot be read, or has another form.
    """
    path = profiles_file(os.environ)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not os.environ.get(FILE_VARIABLE) and not os.access(path, os.F_OK):
            # Also in the HOME of another user, which `runuser` keeps: its folder is closed.
            return Profiles({})
        if isinstance(error, FileNotFoundError):
            raise _failure(f"{path} does not exist") from None
        raise _failure(f"{path} is not a readable file in UTF-8") from None
    return parse_profiles(text, str(path))


def parse_profiles(text: str, name: str) -> Profiles:
    """Return the profiles in the text of a file; errors call the file `name`.

    Raises:
        CommandError: the text is not TOML, or is not made of tables of texts.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        raise _failure(f"{name} is not a TOML file") from None
    default = document.pop(DEFAULT, None)
    if default is not None and not isinstance(default, str):
        raise _failure(f"{DEFAULT} in {name} must be the name of a profile")
    profiles: dict[str, Properties] = {}
    for profile, table in document.items():
        if not isinstance(table, dict):
            raise _failure(f"{profile} in {name} must be a table, such as [{profile}]")
        profiles[profile] = {}
        _flatten(table, "", profiles[profile], f"profile {profile} in {name}")
    return Profiles(profiles, default)


def _flatten(table: Mapping[str, object], prefix: str, into: Properties, where: str) -> None:
    """Collect the values of nested tables: TOML reads `a.b = "c"` as a table a."""
    for key, value in table.items():
        if isinstance(value, dict):
            _flatten(value, f"{prefix}{key}.", into, where)
        elif isinstance(value, bool):
            into[prefix + key] = str(value).lower()
        elif isinstance(value, str | int):
            into[prefix + key] = str(value)
        else:
            raise _failure(
                f"{prefix}{key} of {where} must be text, a whole number or true or false"
            )


def _failure(message: str) -> CommandError:
    return CommandError(f"profiles: {message}.", EXIT_USAGE)
