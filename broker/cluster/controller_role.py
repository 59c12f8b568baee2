"""The controller component of this broker, as handlers see it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from controller.events import Event
from controller.plan import Result


class ControllerRole(Protocol):
    """Whether this broker is the controller, and the way to ask it."""

    @property
    def is_active(self) -> bool:
        """Whether this broker believes to be the controller."""

    def put(self, event: Event) -> asyncio.Future[Result]:
        """Let `event` be processed; the future holds the answer, NOT_CONTROLLER from another."""
