"""The controller component of this broker, as handlers see it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from controller.events import Event
from controller.plan import Result


class ControllerRole(Protocol):
    """Whether this broker is the controller, and its event queue."""

    @property
    def is_active(self) -> bool:
        """Whether this broker takes itself for the controller."""

    def put(self, event: Event) -> asyncio.Future[Result]:
        """Process `event`. The future holds the result, NOT_CONTROLLER on another broker."""
