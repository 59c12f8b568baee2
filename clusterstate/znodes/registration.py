"""`/brokers/ids/<id>`: registration of a broker with its endpoints (decision).

Written in version 5, or 4 for an inter-broker protocol below 2.7; read in versions 1 to 5.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.ids import BrokerId

VERSIONS: Final = range(1, 6)
PLAINTEXT: Final = "PLAINTEXT"
NO_PORT: Final = -1
# Source: kafka.cluster.EndPoint of Kafka 3.9. The name of a listener may hold any character.
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


class Endpoint(NamedTuple):
    """Advertised listener."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return the form in the znode, `LISTENER://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Registration of a live broker."""

    broker_id: BrokerId
    endpoints: Sequence[Endpoint]
    security_protocols: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first_epoch: int | None = None
    """Broker epoch of the first registration of this process, in its later ones.

    A field of Ottla's brokers, which Kafka's ignore."""

    def encode(self, *, timestamp_ms: int, jmx_port: int = NO_PORT, version: int = 5) -> bytes:
        """Return the znode's data."""
        assert version in (4, 5), f"registrations are written in version 4 or 5, not {version}"
        plain = next(
            (point for point in self.endpoints if self._protocol(point) == PLAINTEXT), None
        )
        fields: dict[str, object] = {"features": self.features} if version == 5 else {}
        fields["listener_security_protocol_map"] = dict(self.security_protocols)
        fields["endpoints"] = [str(endpoint) for endpoint in self.endpoints]
        if self.rack is not None:
            fields["rack"] = self.rack
        fields |= {
            "jmx_port": jmx_port,
            "port": plain.port if plain else NO_PORT,
            "host": plain.host if plain else None,
            "version": version,
            "timestamp": str(timestamp_ms),
        }
        if self.first_epoch is not None:
            fields["first_epoch"] = self.first_epoch
        return encode_json(fields)

    def _protocol(self, endpoint: Endpoint) -> str:
        return self.security_protocols.get(endpoint.listener, endpoint.listener)


def decode_registration(broker_id: BrokerId, data: bytes | None) -> Registration:
    """Decode the registration of a broker.

    Raises:
        MalformedZnodeError: not a registration of version 1 to 5.
    """
    fields = JsonObject.decode(data)
    version = fields.integer("version")
    if version not in VERSIONS:
        raise MalformedZnodeError(f"broker registration has version {version}, not 1 to 5")
    if version == 1:
        endpoints = [Endpoint(PLAINTEXT, fields.text("host"), fields.integer("port"))]
    else:
        endpoints = [_endpoint(text) for text in fields.texts("endpoints")]
    return Registration(
        broker_id=broker_id,
        endpoints=tuple(endpoints),
        security_protocols=fields.text_map("listener_security_protocol_map")
        or {endpoint.listener: endpoint.listener for endpoint in endpoints},
        rack=fields.text("rack") if fields.has("rack") else None,
        first_epoch=fields.integer("first_epoch") if fields.has("first_epoch") else None,
    )


def _endpoint(text: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise MalformedZnodeError(f"not an endpoint: {text!r}")
    return Endpoint(match[1], match[2], int(match[3]))
