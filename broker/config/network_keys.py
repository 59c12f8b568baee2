"""Keys of the listeners and their connections (decision)."""

from dataclasses import dataclass

from broker.config.declared_key import integer, long, optional_string, string
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
        "", "Exceptions to max.connections.per.ip, ADDRESS:LIMIT,..."
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
        100, "No effect: there is no authentication yet.", at_least(0)
    )
