"""Keys of the broker as a whole: identity, topics, shutdown, the coordinator (decision)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.config.declared_key import (
    KeyRule,
    boolean,
    integer,
    long,
    optional_integer,
    optional_string,
    string,
)
from broker.config.listener import Listener, parse_listeners
from broker.errors import ConfigError
from broker.security.principal import Principal, parse_principal
from storage.config.config_key import at_least

_CHROOT: Final = re.compile(r"(/[a-zA-Z0-9_-]+)+")
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


@dataclass(frozen=True, kw_only=True)
class ServerKeys:
    """Identity of the broker, and the limits that belong to no other group."""

    broker_id: int = integer(
        -1, "Id of this broker, unique in the cluster; -1 reads it from the log directory "
        "or generates one.", at_least(-1),
    )  # fmt: skip
    broker_id_generation_enable: bool = boolean(
        True, "Whether a broker without an id may generate one."
    )
    reserved_broker_max_id: int = integer(
        1000, "Largest broker id that an operator may choose; generated ids are larger.",
        at_least(0),
    )  # fmt: skip
    broker_rack: str | None = optional_string(
        "Rack of this broker; replicas of a partition are spread over racks. Set it on all brokers "
        "or on none."
    )
    background_threads: int = integer(
        10, "Number of threads for blocking work: flushes, deletions, checkpoints.", at_least(1)
    )
    num_io_threads: int = integer(
        8, "Accepted for compatibility; one loop serves all requests.", at_least(1)
    )
    request_timeout_ms: int = integer(
        30_000,
        "Time that transaction markers wait for another broker, and half of it for the in-sync "
        "replicas there; and that a leader waits for the coordinator of a transaction.",
        at_least(1),
    )
    fetch_max_bytes: int = integer(
        55 * 1024 * 1024, "Maximum size of one fetch response, in bytes.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "Maximum number of fetch sessions of followers, and of consumers.", at_least(0)
    )
    max_request_partition_size_limit: int = integer(
        2000, "No effect: DescribeTopicPartitions is not served.", at_least(1)
    )
    auto_create_topics_enable: bool = boolean(
        True, "Whether a request for an unknown topic creates it."
    )
    delete_topic_enable: bool = boolean(True, "Whether topics may be deleted.")
    num_partitions: int = integer(1, "Number of partitions of a new topic by default.", at_least(1))
    default_replication_factor: int = integer(
        1, "Number of replicas of a new partition by default."
    )
    authorizer_class_name: str = string(
        "", f"Set {AUTHORIZER} to control access by the lists in the coordinator; empty allows "
        "everybody everything.",
    )  # fmt: skip
    super_users: str = string(
        "", "Principals that may do everything, User:NAME;User:NAME...; needs an authorizer."
    )
    allow_everyone_if_no_acl_found: bool = boolean(
        False, "Whether everybody may use a resource without any entry; needs an authorizer."
    )
    controlled_shutdown_enable: bool = boolean(
        True, "Whether this broker hands over its leaderships before it stops."
    )
    controlled_shutdown_max_retries: int = integer(
        3, "Attempts to hand over leaderships before the broker stops anyway."
    )
    controlled_shutdown_retry_backoff_ms: int = long(5000, "Back-off between these attempts.")
    zookeeper_connect: str | None = optional_string(
        "Addresses of the coordinator, HOST:PORT,...[/chroot]; without them the broker runs one."
    )
    zookeeper_session_timeout_ms: int = integer(
        18_000, "Time without a message after which the coordinator declares this broker dead."
    )
    zookeeper_connection_timeout_ms: int | None = optional_integer(
        "Time to wait for the coordinator at start; zookeeper.session.timeout.ms when absent."
    )
    zookeeper_max_in_flight_requests: int = integer(
        10, "No effect: the number of requests to the coordinator is not limited.", at_least(1)
    )
    ottla_jafka_chroot: str = string(
        "", "Path in the coordinator, such as /jafka, below which this broker also registers in "
        "the layout of Jafka and Kafka 0.7; empty disables it. Not a key of Kafka.",
    )  # fmt: skip
    metrics_listener: str = string(
        "", "HOST:PORT of the status pages over HTTP: /metrics (for Prometheus), /healthz, "
        "/readyz, /tasks, /startup; empty disables them. Not a key of Kafka.",
    )  # fmt: skip
    metrics_num_samples: int = integer(
        2, "No effect: metrics are counters, without samples.", at_least(1)
    )
    metrics_sample_window_ms: int = long(
        30_000, "No effect: metrics are counters, without samples.", at_least(1)
    )

    @property
    def status_listener(self) -> Listener | None:
        """The listener of the HTTP status pages; None disables them."""
        if not self.metrics_listener:
            return None
        key, text = "metrics.listener", f"STATUS://{self.metrics_listener}"
        return parse_listeners(key, text, distinct_ports=False)[0]

    @property
    def super_principals(self) -> frozenset[Principal]:
        """The principals in `super.users`, which are separated by semicolons."""
        texts = (text.strip() for text in self.super_users.split(";"))
        try:
            return frozenset(parse_principal(text) for text in texts if text)
        except ValueError as error:
            raise ConfigError("super.users", self.super_users, str(error)) from None

    def rules(self) -> Iterator[KeyRule]:
        """Yield the rules between the keys."""
        lowest = -1 if self.broker_id_generation_enable else 0
        highest = self.reserved_broker_max_id if self.broker_id_generation_enable else 2**31 - 1
        yield (
            "broker.id", self.broker_id, lowest <= self.broker_id <= highest,
            f"must be within {lowest}..{highest} (see broker.id.generation.enable)",
        )  # fmt: skip
        yield (
            "ottla.jafka.chroot", self.ottla_jafka_chroot,
            not self.ottla_jafka_chroot or _CHROOT.fullmatch(self.ottla_jafka_chroot) is not None,
            "must be empty or a path such as /jafka",
        )  # fmt: skip
        yield (
            "authorizer.class.name", self.authorizer_class_name,
            self.authorizer_class_name in ("", AUTHORIZER), f"must be empty or {AUTHORIZER}",
        )  # fmt: skip
        yield (
            "zookeeper.connect", self.zookeeper_connect, _is_connect_string(self.zookeeper_connect),
            "must have the form HOST:PORT,HOST:PORT/CHROOT",
        )  # fmt: skip


def _is_connect_string(text: str | None) -> bool:
    if text is None:
        return True
    from coordination.client.hosts import parse_connect_string

    try:
        parse_connect_string(text)
    except ValueError:
        return False
    return True
