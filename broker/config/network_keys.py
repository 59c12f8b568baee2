"""Keys of the listeners and their connections (decision)."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from broker.config.declared_key import KeyRule, boolean, integer, long, optional_string, string
from broker.config.listener import Listener, parse_listeners, parse_map
from broker.errors import ConfigError
from storage.config.config_key import INT_MAX, at_least, one_of

PROTOCOL_MAP_DEFAULT = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


@dataclass(frozen=True, kw_only=True)
class NetworkKeys:
    """Addresses of the listeners, and limits of connections and requests."""

    listeners: str = string(
        "PLAINTEXT://:9092",
        "Addresses to listen on, NAME://HOST:PORT,...; an empty host means every interface, "
        "port 0 a port chosen by the system.",
    )
    advertised_listeners: str | None = optional_string(
        "Addresses advertised to clients; the addresses in listeners when absent."
    )
    listener_security_protocol_map: str = string(
        PROTOCOL_MAP_DEFAULT, "Security protocol of each listener name, NAME:PROTOCOL,..."
    )
    inter_broker_listener_name: str | None = optional_string(
        "Listener for traffic between brokers."
    )
    security_inter_broker_protocol: str = string(
        "PLAINTEXT",
        "Listener for traffic between brokers, by its protocol.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    require_authentication: bool = boolean(
        False,
        "Refuse listeners for other machines without authentication (not in Kafka).",
    )
    control_plane_listener_name: str | None = optional_string(
        "Listener reserved for the controller; its requests take precedence over all others."
    )
    num_network_threads: int = integer(
        3, "Accepted for compatibility; one loop serves all connections.", at_least(1)
    )
    queued_max_requests: int = integer(
        500, "Maximum number of waiting requests; beyond it, sockets are not read.", at_least(1)
    )
    queued_max_request_bytes: int = long(
        -1, "Maximum size of all waiting requests, in bytes; -1 means no limit."
    )
    # Under load, Kafka's defaults cost up to 50 % more CPU: ADR 0039 and ADR 0044.
    socket_send_buffer_bytes: int = integer(
        -1,
        "SO_SNDBUF of a connection; -1 leaves it to the system (Kafka's default is 102400).",
        at_least(-1),
    )
    socket_receive_buffer_bytes: int = integer(
        -1,
        "SO_RCVBUF of a connection; -1 leaves it to the system (Kafka's default is 102400).",
        at_least(-1),
    )
    socket_request_max_bytes: int = integer(
        100 * 1024 * 1024,
        "Maximum size of a request. A larger request closes its connection, as does one above "
        "4 MiB that neither holds records nor comes from a broker.",
        at_least(1),
    )
    socket_listen_backlog_size: int = integer(
        50, "Maximum number of connections waiting to be accepted.", at_least(1)
    )
    max_connections: int = integer(
        INT_MAX,
        "Maximum number of connections of all listeners together. The inter-broker listener "
        "accepts more if clients have another listener.",
        at_least(1),
    )
    max_connections_per_ip: int = integer(
        INT_MAX, "Maximum number of connections from one address.", at_least(0)
    )
    max_connections_per_ip_overrides: str = string(
        "",
        "Exceptions to max.connections.per.ip, ADDRESS:LIMIT,...; names of hosts are not "
        "looked up.",
    )
    max_connection_creation_rate: int = integer(
        INT_MAX,
        "Accepted for compatibility; the rate of connections is not limited.",
        at_least(0),
    )
    connections_max_idle_ms: int = long(
        600_000, "Time without a request or response after which a connection is closed; -1 never."
    )
    connection_failed_authentication_delay_ms: int = integer(
        100,
        "Time before a failed authentication is answered and its connection closed.",
        at_least(0),
    )

    @property
    def listening(self) -> tuple[Listener, ...]:
        """The listeners to bind."""
        return parse_listeners("listeners", self.listeners, distinct_ports=True)

    @property
    def advertised(self) -> tuple[Listener, ...]:
        """The listeners advertised to clients.

        An empty host and port 0 are replaced once the real ones are known.
        """
        if self.advertised_listeners is None:
            return self.listening
        key = "advertised.listeners"
        return parse_listeners(key, self.advertised_listeners, distinct_ports=False)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for traffic between brokers."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def control_plane_listener(self) -> str | None:
        """The name of the listener for requests of the controller; None if there is none."""
        name = self.control_plane_listener_name
        return None if name is None else name.upper()

    @property
    def trusted_listeners(self) -> frozenset[str]:
        """The names of the listeners that only brokers use.

        The inter-broker listener is not among them if clients have no listener of their own.
        """
        names = {listener.name for listener in self.listening}
        control_plane = {self.control_plane_listener or ""} & names
        is_shared = not names - control_plane - {self.inter_broker_listener}
        return frozenset(control_plane | (set() if is_shared else {self.inter_broker_listener}))

    @property
    def connection_limits_by_ip(self) -> dict[str, int]:
        """The exceptions to `max.connections.per.ip`, by address as the system writes it."""
        key = "max.connections.per.ip.overrides"
        pairs = parse_map(key, self.max_connections_per_ip_overrides)
        if not all(limit.isdecimal() for limit in pairs.values()):
            rule = "must have the form ADDRESS:LIMIT,..."
            raise ConfigError(key, self.max_connections_per_ip_overrides, rule)
        return {_canonical(address): int(limit) for address, limit in pairs.items()}

    def rules(self) -> Iterator[KeyRule]:
        """Yield the rules between the keys."""
        yield (
            "queued.max.request.bytes", self.queued_max_request_bytes,
            self.queued_max_request_bytes <= 0
            or self.queued_max_request_bytes >= self.socket_request_max_bytes,
            "must be at least socket.request.max.bytes, or -1",
        )  # fmt: skip
        yield (
            "max.connections.per.ip", self.max_connections_per_ip,
            bool(self.connection_limits_by_ip) or self.max_connections_per_ip > 0,
            "must be positive unless max.connections.per.ip.overrides is set",
        )  # fmt: skip
        yield (
            "connection.failed.authentication.delay.ms",
            self.connection_failed_authentication_delay_ms,
            self.connections_max_idle_ms < 0
            or self.connection_failed_authentication_delay_ms < self.connections_max_idle_ms,
            "must be below connections.max.idle.ms",
        )  # fmt: skip


def _canonical(address: str) -> str:
    """Return an address in one spelling: Java writes ::1 as 0:0:0:0:0:0:0:1."""
    try:
        return str(ip_address(address))
    except ValueError:
        # The name of a host, which is legal in Kafka.
        return address
