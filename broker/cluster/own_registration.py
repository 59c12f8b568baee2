"""The registration of this broker, and the endpoints of others (decision)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import Endpoint
from broker.config.broker_config import BrokerConfig
from clusterstate.znodes.registration import Endpoint as RegisteredEndpoint
from clusterstate.znodes.registration import Registration
from kafkawire.ids import BrokerId


def registration_of(
    config: BrokerConfig, broker_id: BrokerId, endpoints: Mapping[str, Endpoint]
) -> Registration:
    """Return the registration of a broker with `endpoints`, by listener name."""
    return Registration(
        broker_id=broker_id,
        endpoints=tuple(
            RegisteredEndpoint(name, endpoint.host, endpoint.port)
            for name, endpoint in endpoints.items()
        ),
        security_protocols={name: config.listener_security[name].protocol for name in endpoints},
        rack=config.server.broker_rack,
    )


def dialled_endpoint(config: BrokerConfig, registration: Registration) -> Endpoint:
    """Return the address where the controller reaches a broker.

    That is the control plane listener if configured, else the inter-broker listener. A broker
    without that listener is reached at its first listener with the same security protocol.
    """
    network = config.network
    wanted = network.control_plane_listener or network.inter_broker_listener
    protocol = config.listener_security[wanted].protocol

    def is_worse(endpoint: RegisteredEndpoint) -> tuple[bool, bool]:
        found = registration.security_protocols.get(endpoint.listener)
        return found != protocol, endpoint.listener != wanted

    found = min(registration.endpoints, key=is_worse)
    return Endpoint(found.host, found.port)
