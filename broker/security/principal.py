"""The identity that a connection acts for (decision)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """A kind, such as `User`, and a name. Both are compared exactly, letter case included."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Principal of a connection without authentication. Source: KafkaPrincipal."""


def parse_principal(text: str) -> Principal:
    """Return the principal that `text` names, such as `User:alice`.

    The name may be empty and may contain colons, as in Kafka.

    Raises:
        ValueError: `text` has no kind or no colon.
    """
    kind, colon, name = text.partition(":")
    if not kind or not colon:
        raise ValueError(f"a principal has the form {USER}:name, but this is {text!r}")
    return Principal(kind, name)
