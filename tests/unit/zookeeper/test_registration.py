"""The registrations of members, in the bytes of every generation."""

import pytest

from clusterstate.errors import MalformedZnodeError
from ottla.zookeeper.registration import (
    Layout,
    Pattern,
    Registration,
    consumer_id,
    consumer_of,
    decode_registration,
    thread_ids,
)

STATIC = Registration({"t": 1})
KAFKA = Layout.KAFKA
JAFKA = Layout.JAFKA


@pytest.mark.parametrize(
    ("layout", "data", "registration"),
    [
        pytest.param(
            KAFKA,
            b'{ "pattern":"static", "subscription":{ "t": 1 }, "timestamp":"1558617131642", '
            b'"version":1 }',
            STATIC,
            id="0.8.0",
        ),
        pytest.param(
            KAFKA,
            b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1558617131642"}',
            STATIC,
            id="0.8.1 to 1.1.1",
        ),
        pytest.param(
            KAFKA,
            b'{"version":1,"subscription":{"a\\\\.b":2},"pattern":"white_list","timestamp":"1"}',
            Registration({"a\\.b": 2}, Pattern.WHITE_LIST),
            id="a regex up to 1.0.0",
        ),
        pytest.param(
            KAFKA,
            b'{"version":1,"subscription":{"a\\\\\\\\.b":2},"pattern":"white_list","timestamp":"1"}',
            Registration({"a\\\\.b": 2}, Pattern.WHITE_LIST),
            id="a regex since 1.0.1, escaped twice",
        ),
        pytest.param(
            KAFKA,
            b'{"subscription":{"t":1},"pattern":"something"}',
            STATIC,
            id="an unknown pattern is static",
        ),
        pytest.param(JAFKA, b'{"haha":2,"hehe":3}', Registration({"haha": 2, "hehe": 3}), id="J"),
        pytest.param(
            JAFKA, b'{ "haha": 2,"hehe": 3 }', Registration({"haha": 2, "hehe": 3}), id="0.7"
        ),
        pytest.param(
            JAFKA, b"*2*a.*", Registration({"a.*": 2}, Pattern.WHITE_LIST), id="0.7.2 white list"
        ),
        pytest.param(
            JAFKA, b"!12!a!b", Registration({"a!b": 12}, Pattern.BLACK_LIST), id="0.7.2 black list"
        ),
    ],
)
def test_every_generation_is_read(layout: Layout, data: bytes, registration: Registration) -> None:
    assert decode_registration(data, layout) == registration


def test_ours_has_the_bytes_of_1_1_1() -> None:
    assert STATIC.encode(KAFKA, 1558617131642) == (
        b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1558617131642"}'
    )
    white = Registration({"a\\.b": 2}, Pattern.WHITE_LIST)
    assert white.encode(KAFKA, 1) == (
        b'{"version":1,"subscription":{"a\\\\.b":2},"pattern":"white_list","timestamp":"1"}'
    )


def test_ours_has_the_bytes_of_jafka() -> None:
    assert Registration({"haha": 2, "hehe": 3}).encode(JAFKA, 1) == b'{"haha":2,"hehe":3}'
    assert Registration({"a.*": 2}, Pattern.WHITE_LIST).encode(JAFKA, 1) == b"*2*a.*"
    assert Registration({"a.*": 2}, Pattern.BLACK_LIST).encode(JAFKA, 1) == b"!2!a.*"


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (KAFKA, None),
        (KAFKA, b"orders"),
        (KAFKA, b"[]"),
        (KAFKA, b'{"subscription":{"t":1}}'),
        (KAFKA, b'{"pattern":"static"}'),
        (KAFKA, b'{"pattern":"static","subscription":[]}'),
        (KAFKA, b'{"pattern":"static","subscription":{"t":"1"}}'),
        (KAFKA, b'{"pattern":"static","subscription":{"t":10001}}'),
        (JAFKA, b"\xff"),
        (JAFKA, b"*2!a"),
        (JAFKA, b"*99999*a"),
        (JAFKA, b'{"t":true}'),
    ],
)
def test_other_texts_are_malformed(layout: Layout, data: bytes | None) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_registration(data, layout)


def test_ids_have_the_form_of_kafka() -> None:
    assert consumer_id("g", "a-b_c", 17, 0x0123456789ABCDEF) == "g_a-b_c-17-12345678"
    assert consumer_id("g", "h", 17, 0xAB) == "g_h-17-ab"
    assert thread_ids("c-1", 2) == ["c-1-0", "c-1-1"]
    assert thread_ids("c", -1) == []
    assert consumer_of("g_a-b-17-ab-10") == "g_a-b-17-ab"
