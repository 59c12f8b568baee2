"""A coordinator inside the process of a single broker (composition).

Its data is in a directory of its own in the first log dir. It listens on a port of this machine
that the operating system chooses, and serves only this process, which alone knows the password. It
is durable: every acknowledged write is on disk.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from broker.errors import StartupError
from coordination.client import Login
from coordination.errors import DataError
from coordination.server.coordinator import Coordinator
from coordination.server.coordinator_config import Address, CoordinatorConfig
from coordination.server.disk.wal import ALLOCATION_STEP_BYTES
from coordination.server.listeners import UNLIMITED
from storage.disk.space_reserve import SpaceReserve, free_bytes

DIRECTORY: Final = "coordinator"
HOST: Final = "127.0.0.1"
USER: Final = "broker"
PASSWORD_BYTES: Final = 32
START_FREE_BYTES: Final = 2 * ALLOCATION_STEP_BYTES
"""With less free space, the start frees the reserve of the log dir: it allocates a segment."""


def make_login() -> Login:
    """Return a login with a new password."""
    return Login(user=USER, password=secrets.token_urlsafe(PASSWORD_BYTES))


async def start_coordinator(log_dir: Path, login: Login) -> Coordinator:
    """Return a running coordinator on the data in `log_dir`, for a client with `login` only.

    Raises:
        StartupError: the data cannot be used.
    """
    config = CoordinatorConfig(
        listen=Address(HOST, 0),
        users={login.user: login.password},
        required_schemes=frozenset({"sasl"}),
        # Connections of other users of this machine must not keep this process out.
        max_connections_per_address=UNLIMITED,
    )
    coordinator = Coordinator(config, log_dir / DIRECTORY)
    try:
        if free_bytes(log_dir) < START_FREE_BYTES:
            # The opening of the logs, which comes later, holds it again if there is space.
            SpaceReserve(log_dir, 0).release()
        await coordinator.start()
    except (DataError, OSError) as error:
        raise StartupError(str(error)) from error
    return coordinator


def address_of(coordinator: Coordinator) -> str:
    """Return the coordinator's address in the form of `zookeeper.connect`."""
    return f"{HOST}:{coordinator.bound_port}"
