"""Faults that the fake cluster can inject into a request."""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from kafkawire.errors import ErrorCode


@dataclass(frozen=True)
class Refuse:
    """Carry nothing out; respond with this code for every partition."""

    code: ErrorCode


@dataclass(frozen=True)
class RefuseWhole:
    """Carry nothing out; respond with this code for the whole fetch."""

    code: ErrorCode


@dataclass(frozen=True)
class Omit:
    """Carry nothing out; respond as if the request had been empty."""


@dataclass(frozen=True)
class HangUp:
    """Carry nothing out and close the connection."""


@dataclass(frozen=True)
class LoseResponse:
    """Carry out the request, then close the connection without a response."""


@dataclass(frozen=True)
class Never:
    """Carry nothing out, and respond neither to this nor to later requests of the connection."""


@dataclass(frozen=True)
class Garbage:
    """Respond with these bytes as a frame."""

    frame: bytes


@dataclass(frozen=True, eq=False)
class Hold:
    """Carry out the request and respond only once `until` is set."""

    until: asyncio.Event


Fault: TypeAlias = Refuse | RefuseWhole | Omit | HangUp | LoseResponse | Never | Garbage | Hold
