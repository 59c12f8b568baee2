"""The registration of this broker, and the endpoints of others (decision)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import Endpoint
from broker.config.broker_config import BrokerConfig
from broker.config.listener import SERVED_PROTOCOL, parse_protocol_map
from broker.config.network_keys import NetworkKeys
from clusterstate.znodes.registration import Endpoint as RegisteredEndpoint
from clusterstate.znodes.registration import Registration
from kafkawire.ids import BrokerId


def registration_of(
    config: BrokerConfig, broker_id: BrokerId, endpoints: Mapping[str, Endpoint]
) -> Registration:
    """Return the registration of a broker with `endpoints`, by listener name."""
    protocols = parse_protocol_map(
        "listener.security.protocol.map", config.network.listener_security_protocol_map
    )
    return Registration(
        broker_id=broker_id,
        endpoints=tuple(
            RegisteredEndpoint(name, endpoint.host, endpoint.port)
            for name, endpoint in endpoints.items()
        ),
        security_protocols={name: protocols[name] for name in endpoints},
        rack=config.server.broker_rack,
    )


def dialled_endpoint(config: NetworkKeys, registration: Registration) -> Endpoint:
    """Return the address where the controller reaches a broker.

    That is the control plane listener if configured, else the inter-broker listener. A broker
    without that listener is reached at its first listener with the supported protocol.
    """
    wanted = (config.control_plane_listener_name or config.inter_broker_listener).upper()

    def is_worse(endpoint: RegisteredEndpoint) -> tuple[bool, bool]:
        protocol = registration.security_protocols.get(endpoint.listener, SERVED_PROTOCOL)
        return protocol != SERVED_PROTOCOL, endpoint.listener != wanted

    found = min(registration.endpoints, key=is_worse)
    return Endpoint(found.host, found.port)
