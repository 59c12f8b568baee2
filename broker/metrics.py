"""Metrics of the broker outside the network layer (decision).

A counter is a plain attribute, so that counting costs nothing on the hot path. A gauge is read only
for a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class BrokerState(IntEnum):
    """Kafka's numbers for the states of a broker."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class Metrics:
    """The broker's state, and gauges by name."""

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self._gauges: dict[str, Callable[[], int]] = {}

    def add_gauge(self, name: str, read: Callable[[], int]) -> None:
        """Add the gauge `name`, whose value `read` returns."""
        assert name not in self._gauges, f"duplicate gauge {name}"
        self._gauges[name] = read

    def snapshot(self) -> dict[str, int]:
        """Return all values, by name."""
        values = {name: read() for name, read in self._gauges.items()}
        return {"broker_state": int(self.state), **values}
