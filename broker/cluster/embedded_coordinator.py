"""A coordinator inside the process of a single broker (composition).

Its data is in a directory of its own in the first log dir. It listens on a port of this machine
that the operating system chooses. It is durable: every acknowledged write is on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from broker.errors import StartupError
from coordination.errors import DataError
from coordination.server.coordinator import Coordinator
from coordination.server.coordinator_config import Address, CoordinatorConfig

DIRECTORY: Final = "coordinator"
HOST: Final = "127.0.0.1"


async def start_coordinator(log_dir: Path) -> Coordinator:
    """Return a running coordinator on the data in `log_dir`.

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
    """Return the coordinator's address in the form of `zookeeper.connect`."""
    return f"{HOST}:{coordinator.bound_port}"
