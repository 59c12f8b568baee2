"""Records the steps of a start, in order, with their durations (edge: it logs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupStep:
    """A completed step."""

    name: str
    duration_ms: float


class StartupSteps:
    """The completed steps of a start; a failed step is not recorded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self.taken: list[StartupStep] = []
        self._clock = clock

    def described(self) -> list[dict[str, object]]:
        """Return the steps so far, in order."""
        return [{"step": each.name, "duration_ms": each.duration_ms} for each in self.taken]

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record the step `name` when its block has completed."""
        began_s = self._clock()
        yield
        duration_ms = round((self._clock() - began_s) * 1000, 1)
        self.taken.append(StartupStep(name=name, duration_ms=duration_ms))
        log.info("startup.step", number=len(self.taken), step=name, duration_ms=duration_ms)
