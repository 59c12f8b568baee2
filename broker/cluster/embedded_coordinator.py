"""The coordinator of a node that has no other: inside the broker's own process (composition).

Its data lies in a directory of its own in the first log dir; it listens on a port of this machine
that the system chooses. It is durable: what it has acknowledged is on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker.errors import StartupError
from coordination.config import Address, CoordinatorConfig
from coordination.coordinator import Coordinator
from coordination.errors import DataError

DIRECTORY: Final = "coordinator"
HOST: Final = "127.0.0.1"


async def start_coordinator(log_dir: Path) -> Coordinator:
    """Return a coordinator that serves, on the data in `log_dir`.

    Raises:
        StartupError: the data cannot be used.
    """
    coordinator = Coordinator(CoordinatorConfig(listen=Address(HOST, 0)), log_dir / DIRECTORY)
    try:
        await coordinator.start()
    except (DataError, OSError) as error:
        raise StartupError(str(error)) from error
    return coordinator


def address_of(coordinator: Coordinator) -> str:
    """Return what `zookeeper.connect` would say of it."""
    return f"{HOST}:{coordinator.bound_port}"
