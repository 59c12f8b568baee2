"""What this broker registers of itself, and where it reaches others (decision)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import Endpoint
from broker.config import BrokerConfig
from broker.network.listener import parse_protocol_map
from controller.znodes.registration import Endpoint as RegisteredEndpoint
from controller.znodes.registration import Registration
from kafkawire.ids import BrokerId


def registration_of(
    config: BrokerConfig, broker_id: BrokerId, endpoints: Mapping[str, Endpoint]
) -> Registration:
    """Return the registration of a broker that is reached at `endpoints`, by listener name."""
    protocols = parse_protocol_map(
        "listener.security.protocol.map", config.listener_security_protocol_map
    )
    return Registration(
        broker_id=broker_id,
        endpoints=tuple(
            RegisteredEndpoint(name, endpoint.host, endpoint.port)
            for name, endpoint in endpoints.items()
        ),
        security_protocols={name: protocols[name] for name in endpoints},
        rack=config.broker_rack,
    )


def dialled_endpoint(config: BrokerConfig, registration: Registration) -> Endpoint:
    """Return where the controller reaches a broker: control plane, else inter-broker listener.

    A broker that has no such listener is reached at the first it has.
    """
    wanted = (config.control_plane_listener_name or config.inter_broker_listener).upper()
    found = next(
        (each for each in registration.endpoints if each.listener == wanted),
        registration.endpoints[0],
    )
    return Endpoint(found.host, found.port)
