"""The steps of a start, in their order, and how long each took (edge: it logs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupStep:
    """A step that has been taken."""

    name: str
    duration_ms: float


class StartupSteps:
    """Notes each step when it is done; one that fails is not."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self.taken: list[StartupStep] = []
        self._clock = clock

    def described(self) -> list[dict[str, object]]:
        """Return the steps so far, in their order."""
        return [{"step": each.name, "duration_ms": each.duration_ms} for each in self.taken]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Take a step."""
        began_s = self._clock()
        yield
        duration_ms = round((self._clock() - began_s) * 1000, 1)
        self.taken.append(StartupStep(name=name, duration_ms=duration_ms))
        log.info("startup.step", number=len(self.taken), step=name, duration_ms=duration_ms)
