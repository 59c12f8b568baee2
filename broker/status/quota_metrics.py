"""The rates of clients that have a quota (decision).

Clients choose their ids, so only the `MAX_CLIENTS` most recently active ones are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from monitoring.exposition import GAUGE, Family

MAX_CLIENTS: Final = 500
CLIENT: Final = ("user", "client_id")


def _family(name: str, meaning: str) -> Family:
    return Family(name=f"kafka_server_{name}", kind=GAUGE, meaning=meaning, labels=CLIENT)


BYTE_RATES: Final = {
    PRODUCER_BYTE_RATE: _family(
        "produce_byte_rate", "Bytes per second of a producer with a quota, in ten seconds."
    ),
    CONSUMER_BYTE_RATE: _family(
        "fetch_byte_rate", "Bytes per second of a consumer with a quota, in ten seconds."
    ),
}
THROTTLE_TIMES: Final = {
    PRODUCER_BYTE_RATE: _family(
        "produce_throttle_time", "Milliseconds of the last delay of a producer with a quota."
    ),
    CONSUMER_BYTE_RATE: _family(
        "fetch_throttle_time", "Milliseconds of the last delay of a consumer with a quota."
    ),
}
QUOTA_FAMILIES: Final = (*BYTE_RATES.values(), *THROTTLE_TIMES.values())


def quota_pieces(quotas: ClientQuotas, now_ms: int) -> Iterator[str]:
    """Yield the metrics of the clients with a quota; `now_ms` is the time of their rates."""
    uses = quotas.uses(MAX_CLIENTS)
    yield ""
    for key, family in BYTE_RATES.items():
        yield from family.pieces(
            (each.client, each.rate.per_second(now_ms)) for each in uses if each.key == key
        )
    for key, family in THROTTLE_TIMES.items():
        yield from family.pieces(
            (each.client, each.rate.throttle_ms) for each in uses if each.key == key
        )
