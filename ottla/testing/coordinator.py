"""The coordinator of a cluster for tests (edge)."""

from pathlib import Path
from typing import Final

from ottla.testing.network.control import NetworkControl
from ottla.testing.network.links import COORDINATOR, Party
from ottla.testing.reserved_port import ReservedPort
from ottla.testing.server import Server
from ottla.testing.settings import HOST

PROGRAM: Final = "coordinator"
READY: Final = "ready "
DATA: Final = "data"


class CoordinatorServer:
    """A coordinator process on a port that stays the same over restarts."""

    def __init__(self, directory: Path) -> None:
        self._port = ReservedPort()
        self.address = self._port.address
        arguments = [
            f"--listen={self.address}",
            f"--data-dir={directory / DATA}",
            # Tests kill processes and not machines: syncs would only take time.
            "--wal-fsync=off",
            # All brokers connect from the same address.
            "--max-connections-per-address=0",
        ]
        self.server = Server(PROGRAM, PROGRAM, arguments, directory, READY)

    def address_for(self, broker_id: int, network: NetworkControl | None) -> str:
        """Return the address to which a broker connects, which may lead through the network."""
        if network is None:
            return self.address
        port = network.route(COORDINATOR, self._port.number, Party(broker_id))
        return f"{HOST}:{port}"

    def close(self) -> None:
        """Kill the process and give up the port."""
        self.server.discard()
        self._port.close()
