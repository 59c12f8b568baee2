"""Whether a broker is alive, and whether it serves (decision).

A broker is ready when it runs, is registered with the coordinator and serves every partition whose
log it has. A partition without a leader, or a follower that lags, is trouble of the cluster, and
does not make its broker unready.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from broker.status.gauges import BrokerState


class Serving(Protocol):
    """The parts of a broker that decide on its health."""

    @property
    def state(self) -> BrokerState:
        """State of the broker."""

    @property
    def failure(self) -> str | None:
        """Reason why the broker is about to stop; None if it is not."""

    @property
    def is_registered(self) -> bool:
        """Whether the broker has a session with the coordinator, and is registered in it."""

    @property
    def offline_dirs(self) -> list[str]:
        """Log dirs that cannot be used."""

    @property
    def unserved_count(self) -> int:
        """Number of partitions whose log is here, but which are not served."""


def fatal_troubles(broker: Serving) -> Iterator[str]:
    """Yield the reasons to restart the process."""
    if broker.failure is not None:
        yield f"the broker has failed: {broker.failure}"


def troubles(broker: Serving) -> Iterator[str]:
    """Yield the reasons why clients are not served, or not all of them."""
    yield from fatal_troubles(broker)
    if broker.state is not BrokerState.RUNNING:
        yield f"the broker is {broker.state.name.lower().replace('_', ' ')}"
        return
    if not broker.is_registered:
        yield "the broker is not registered with the coordinator"
    for path in broker.offline_dirs:
        yield f"log dir {path} cannot be used"
    if broker.unserved_count:
        yield f"{broker.unserved_count} partitions are not served"
