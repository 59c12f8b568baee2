"""A broker of a test with its ports (edge)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.testing.network.control import NetworkControl
from ottla.testing.network.links import CLIENTS, Party
from ottla.testing.reserved_port import ReservedPort
from ottla.testing.server import Server
from ottla.testing.settings import HOST, listener_settings, override_arguments

PROGRAM: Final = "broker"
READY: Final = "broker.started"
DATA: Final = "data"


class Member:
    """A broker process: alone, or a member of a cluster.

    Its ports stay the same over restarts. With a network, others connect through it.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        settings: Mapping[str, str],
        network: NetworkControl | None,
    ) -> None:
        self.broker_id = broker_id
        self.log_dir = directory / DATA
        self._ports = (ReservedPort(), ReservedPort())
        bound = self._ports[0].number, self._ports[1].number
        advertised = None
        if network is not None:
            party = Party(broker_id)
            advertised = (
                network.route(party, bound[0], CLIENTS),
                network.route(party, bound[1], None),
            )
        self.bootstrap = f"{HOST}:{bound[0] if advertised is None else advertised[0]}"
        """`HOST:PORT` for clients."""
        own = {
            "broker.id": str(broker_id),
            "log.dirs": str(self.log_dir),
            **listener_settings(bound, advertised),
        }
        arguments = override_arguments({**settings, **own})
        self.server = Server(PROGRAM, f"broker {broker_id}", arguments, directory, READY)

    def close(self) -> None:
        """Kill the process and give up the ports."""
        self.server.discard()
        for port in self._ports:
            port.close()
