"""What can be made to go wrong with a request at the fake cluster."""

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from kafkawire.errors import ErrorCode


@dataclass(frozen=True)
class Refuse:
    """Carry nothing out; answer with this code for every partition."""

    code: ErrorCode


@dataclass(frozen=True)
class RefuseWhole:
    """Carry nothing out; answer with this code for the whole fetch."""

    code: ErrorCode


@dataclass(frozen=True)
class Omit:
    """Carry nothing out; answer as if nothing had been asked."""


@dataclass(frozen=True)
class HangUp:
    """Carry nothing out and close the connection."""


@dataclass(frozen=True)
class LoseAnswer:
    """Carry it out, then close the connection instead of answering."""


@dataclass(frozen=True)
class Never:
    """Carry nothing out and do not answer, nor anything behind it on this connection."""


@dataclass(frozen=True)
class Garbage:
    """Answer with these bytes as a frame."""

    frame: bytes


@dataclass(frozen=True, eq=False)
class Hold:
    """Carry it out and answer only once `until` is set."""

    until: asyncio.Event


Fault: TypeAlias = Refuse | RefuseWhole | Omit | HangUp | LoseAnswer | Never | Garbage | Hold
