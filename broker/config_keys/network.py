"""Keys of the listeners and of the connections to them (decision)."""

from dataclasses import dataclass

from broker.config_key import integer, long, optional_string, string
from storage.config_key import INT_MAX, at_least, one_of

PROTOCOL_MAP_DEFAULT = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


@dataclass(frozen=True, kw_only=True)
class NetworkKeys:
    """Where clients connect, and how much one of them may take."""

    listeners: str = string(
        "PLAINTEXT://:9092",
        "Addresses to listen on, NAME://HOST:PORT,...; an empty host is every interface, "
        "port 0 one that the system chooses.",
    )
    advertised_listeners: str | None = optional_string(
        "Addresses that clients are told; those of listeners when absent."
    )
    listener_security_protocol_map: str = string(
        PROTOCOL_MAP_DEFAULT, "Security protocol of each listener name, NAME:PROTOCOL,..."
    )
    inter_broker_listener_name: str | None = optional_string(
        "Listener that brokers use among themselves."
    )
    security_inter_broker_protocol: str = string(
        "PLAINTEXT",
        "Listener that brokers use among themselves, by its protocol.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    control_plane_listener_name: str | None = optional_string(
        "Listener that only the controller uses; its requests overtake all others."
    )
    num_network_threads: int = integer(
        3, "Accepted for compatibility; one loop serves all connections.", at_least(1)
    )
    queued_max_requests: int = integer(
        500, "Requests waiting at most; beyond it sockets are not read.", at_least(1)
    )
    queued_max_request_bytes: int = long(-1, "Bytes of waiting requests at most; -1 sets no limit.")
    # Kafka's defaults cost up to half as much CPU again where much is sent: ADR 0039 and 0044.
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
        "Largest request; a larger one closes its connection, as does one of more than 4 MiB that "
        "neither holds records nor comes from a broker.",
        at_least(1),
    )
    socket_listen_backlog_size: int = integer(
        50, "Connections that may wait to be accepted.", at_least(1)
    )
    max_connections: int = integer(
        INT_MAX,
        "Connections at most, over all listeners; that of brokers, where clients have another one, "
        "takes more.",
        at_least(1),
    )
    max_connections_per_ip: int = integer(
        INT_MAX, "Connections from one address at most.", at_least(0)
    )
    max_connections_per_ip_overrides: str = string(
        "", "Other limits for some addresses, ADDRESS:LIMIT,..."
    )
    max_connection_creation_rate: int = integer(
        INT_MAX,
        "Accepted for compatibility; the rate of connections is not limited.",
        at_least(0),
    )
    connections_max_idle_ms: int = long(
        600_000, "A connection without a request or an answer for so long is closed; -1 never."
    )
    connection_failed_authentication_delay_ms: int = integer(
        100, "No effect: there is no authentication yet.", at_least(0)
    )
