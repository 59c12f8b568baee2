"""Settings are parsed and validated in one place."""

import re

import pytest

from kafkawire.compression import Codec
from ottla.client.client_config import (
    Acks,
    Address,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    parse_acks,
    parse_bootstrap,
    parse_compression,
)
from ottla.client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (["a", "b:2"], [("a", 9092), ("b", 2)]),
        ("[::1]:1", [("::1", 1)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers(servers: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert [(each.host, each.port) for each in parse_bootstrap(servers)] == expected


@pytest.mark.parametrize(
    "text", ["a:b", "a:0", "a:65536", "a:", ":9092", "[::1", "[::1:80", "::1]", "a]:1"]
)
def test_a_malformed_bootstrap_server_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        parse_bootstrap(text)


@pytest.mark.parametrize("servers", [b"a:1", [5], ["a:1", None]], ids=str)
def test_bootstrap_servers_of_another_type_are_refused(servers: object) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers must be str"):
        parse_bootstrap(servers)  # type: ignore[arg-type]


def test_a_number_instead_of_bootstrap_servers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers must be str"):
        parse_bootstrap(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("client_id", [5, "\ud800", "x" * 40_000], ids=["int", "utf-8", "long"])
def test_a_client_id_that_no_request_can_carry_is_refused(client_id: object) -> None:
    with pytest.raises(ConfigurationError, match="client_id must"):
        ClientConfig(
            bootstrap=parse_bootstrap("a"),
            client_id=client_id,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ConsumerConfig, "fetch_max_bytes"),
        (ConsumerConfig, "fetch_max_wait_ms"),
        (ProducerConfig, "batch_size_bytes"),
        (ProducerConfig, "transaction_timeout_ms"),
    ],
)
def test_a_fraction_that_no_request_can_carry_is_refused(kind: type, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number, got 500.5"):
        kind(**{name: 500.5})


def test_records_may_linger_for_a_fraction_of_a_millisecond() -> None:
    assert ProducerConfig(linger_ms=0.5).linger_ms == 0.5


def test_at_least_one_bootstrap_server_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="at least one host:port"):
        ClientConfig(bootstrap=parse_bootstrap(" , "))


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]


@pytest.mark.parametrize(("acks", "expected"), [(0, 0), (1, 1), (-1, -1), ("all", -1)])
def test_acks(acks: Acks, expected: int) -> None:
    assert parse_acks(acks) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [(None, Codec.NONE), ("none", Codec.NONE), ("lz4", Codec.LZ4), ("GZIP", Codec.GZIP)],
)
def test_compression(name: str | None, expected: Codec) -> None:
    assert parse_compression(name) is expected


@pytest.mark.parametrize(
    "setting",
    [
        {"linger_ms": -1},
        {"batch_size_bytes": 0},
        {"max_request_bytes": 0},
        {"max_in_flight": 0},
        {"max_block_ms": -1},
        {"retries": -1},
        {"delivery_timeout_ms": 0},
        {"buffer_memory_bytes": 100},
        {"acks": 3},
        {"linger_ms": "5"},
        {"retries": None},
        {"retries": True},
        {"linger_ms": float("nan")},
        {"linger_ms": True},
        {"acks": True},
        {"adaptive_partitioning": "false"},
        {"enable_idempotence": 1},
    ],
    ids=str,
)
def test_a_producer_setting_out_of_range_is_named(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        ProducerConfig(**setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "setting",
    [
        {"fetch_min_bytes": -1},
        {"fetch_min_bytes": float("nan")},
        {"check_crcs": "false"},
        {"fetch_max_wait_ms": -1},
        {"fetch_max_bytes": 0},
        {"max_partition_fetch_bytes": 0},
        {"prefetch_max_bytes": 1},
        {"auto_offset_reset": 1},
        {"isolation_level": 1},
    ],
    ids=str,
)
def test_a_consumer_setting_out_of_range_is_named(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        ConsumerConfig(**setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "setting",
    [
        {"request_timeout_ms": 0},
        {"connect_timeout_ms": 0},
        {"metadata_max_age_ms": 0},
        {"max_response_bytes": 0},
        {"retry_backoff_ms": 2_000},
        {"reconnect_backoff_ms": -1},
    ],
    ids=str,
)
def test_a_client_setting_out_of_range_is_named(setting: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        ClientConfig(bootstrap=(Address("a", 1),), **setting)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"transactional_id": ""}, "transactional_id is empty"),
        ({"transactional_id": 7}, "transactional_id must be str"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms must be"),
        ({"enable_idempotence": False}, "transactional_id needs enable_idempotence, got False"),
        ({"acks": 1, "enable_idempotence": False}, "transactional_id needs acks='all', got 1"),
    ],
    ids=str,
)
def test_settings_that_forbid_transactions_are_named(
    settings: dict[str, object], text: str
) -> None:
    given = {"transactional_id": "orders", "enable_idempotence": True} | settings
    with pytest.raises(ConfigurationError, match=text):
        ProducerConfig(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 17), (Codec.ZSTD, -5), (Codec.NONE, None)]
)
def test_a_compression_level_within_the_limits_is_kept(codec: Codec, level: int | None) -> None:
    assert ProducerConfig(codec=codec, compression_level=level).compression_level == level


@pytest.mark.parametrize(
    ("codec", "level", "text"),
    [
        (Codec.GZIP, 10, r"compression_level must be within 1\.\.9, got 10"),
        (Codec.ZSTD, 23, r"must be within -131072\.\.22"),
        (Codec.SNAPPY, 1, "compression_level is for gzip, lz4, zstd, but compression is 'snappy'"),
        (Codec.NONE, 1, "but compression is 'none'"),
    ],
)
def test_another_compression_level_is_refused(codec: Codec, level: int, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ProducerConfig(codec=codec, compression_level=level)
