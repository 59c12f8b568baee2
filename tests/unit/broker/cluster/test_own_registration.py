"""A broker's registration: `broker.cluster.own_registration`."""

from dataclasses import replace

import pytest

from broker.cluster.metadata_cache import Endpoint
from broker.cluster.own_registration import dialled_endpoint, registration_of
from broker.config.broker_config import BrokerConfig
from clusterstate.znodes.registration import Endpoint as RegisteredEndpoint
from clusterstate.znodes.registration import Registration
from kafkawire.ids import BrokerId

PROPERTIES = {
    "listeners": "INNER://:1,OUTER://:2,CONTROL://:3",
    "advertised.listeners": "INNER://h:1,OUTER://h:2,CONTROL://h:3",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT,CONTROL:PLAINTEXT,X:SSL",
    "inter.broker.listener.name": "INNER",
    "broker.rack": "r1",
}
OTHER = Registration(
    broker_id=BrokerId(2),
    endpoints=[RegisteredEndpoint(name, "o", port) for port, name in enumerate("ABC")],
)


def test_registration_contains_endpoints_and_their_protocols() -> None:
    config = BrokerConfig.from_properties(PROPERTIES)
    endpoints = {"INNER": Endpoint("h", 1), "OUTER": Endpoint("h", 2)}
    found = registration_of(config, BrokerId(7), endpoints)
    assert [str(each) for each in found.endpoints] == ["INNER://h:1", "OUTER://h:2"]
    assert found.security_protocols == {"INNER": "PLAINTEXT", "OUTER": "PLAINTEXT"}
    assert (found.broker_id, found.rack) == (7, "r1")


def test_controller_dials_the_control_plane_listener() -> None:
    config = BrokerConfig.from_properties(PROPERTIES)
    endpoints = {"INNER": Endpoint("h", 1), "CONTROL": Endpoint("h", 3)}
    found = registration_of(config, BrokerId(7), endpoints)
    assert dialled_endpoint(config, found) == Endpoint("h", 1)
    control = BrokerConfig.from_properties({**PROPERTIES, "control.plane.listener.name": "CONTROL"})
    assert dialled_endpoint(control, found) == Endpoint("h", 3)
    assert dialled_endpoint(config, OTHER) == Endpoint("o", 0)


@pytest.mark.parametrize("secret", ["A", "INNER"])
def test_controller_prefers_a_listener_of_its_own_protocol(
    secret: str,
) -> None:
    endpoints = [RegisteredEndpoint(secret, "o", 0), RegisteredEndpoint("B", "o", 1)]
    protocols = {secret: "SSL", "B": "PLAINTEXT"}
    other = replace(OTHER, endpoints=endpoints, security_protocols=protocols)
    assert dialled_endpoint(BrokerConfig.from_properties(PROPERTIES), other) == Endpoint("o", 1)
