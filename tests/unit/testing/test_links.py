"""Links of the network between test servers, and the senders of requests on them."""

import math

import pytest

from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from ottla.testing.network.links import (
    CLIENTS,
    COORDINATOR,
    Links,
    Party,
    check_delay,
    link_between,
    missing_bytes,
    sender_of,
)

B1, B2 = Party(1), Party(2)
ONE_TWO = link_between(B1, B2)


def test_a_link_has_no_direction() -> None:
    assert link_between(B1, B2) == link_between(B2, B1)
    assert len({link_between(B1, CLIENTS), link_between(B1, COORDINATOR), ONE_TWO}) == 3


def test_a_fault_affects_its_links_only() -> None:
    links = Links()
    links.cut([ONE_TWO])
    links.slow([link_between(B1, CLIENTS)], 0.5)
    assert links.is_cut(ONE_TWO)
    assert not links.is_cut(link_between(B1, CLIENTS))
    assert links.delay_s(link_between(B1, CLIENTS)) == 0.5
    assert links.delay_s(ONE_TWO) == 0


@pytest.mark.parametrize("delay_s", [-1.0, math.nan, math.inf])
def test_a_delay_is_a_number_of_seconds(delay_s: float) -> None:
    check_delay(0)
    check_delay(0.5)
    with pytest.raises(ValueError, match="delay_s must be a number of seconds"):
        check_delay(delay_s)


def test_healing_some_links_keeps_the_faults_of_others() -> None:
    links = Links()
    links.cut([ONE_TWO, link_between(B1, CLIENTS)])
    links.heal([ONE_TWO])
    assert not links.is_cut(ONE_TWO)
    assert links.is_cut(link_between(B1, CLIENTS))


def test_healing_without_links_ends_all_faults() -> None:
    links = Links()
    links.cut([ONE_TWO])
    links.slow([ONE_TWO, link_between(B2, CLIENTS)], 0.1)
    links.heal()
    assert not links.is_cut(ONE_TWO)
    assert links.delay_s(link_between(B2, CLIENTS)) == 0


@pytest.mark.parametrize(
    ("client_id", "sender"),
    [
        ("1", 1),
        ("broker-12-fetcher-0", 12),
        ("broker-2", 2),
        ("ottla", None),
        ("", None),
        (None, None),
        ("broker-x", None),
    ],
)
def test_the_client_id_of_a_first_request_shows_the_broker(
    client_id: str | None, sender: int | None
) -> None:
    frame = encode_request(ApiKey.API_VERSIONS, 3, 7, client_id, ApiVersionsRequest())
    received = b""
    while missing := missing_bytes(received):
        received += frame[len(received) : len(received) + missing]
    assert frame.startswith(received)
    assert sender_of(received) == sender


def test_a_client_id_of_any_length_is_read_within_limits() -> None:
    head = (1_000_000).to_bytes(4) + int(ApiKey.FETCH).to_bytes(2) + bytes(6)
    assert missing_bytes(b"") == len(head) + 2
    assert missing_bytes(head + (30_000).to_bytes(2)) == 100
