"""Decoding is the inverse of encoding, and hostile bytes do no harm.

"Every message" is every declared message in every version; the cases are grouped by API.
"""

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.declaration import layout_of
from kafkawire.errors import DecodeError
from kafkawire.headers import decode_request_header, decode_response_header
from kafkawire.schema import decode, encode, encode_parts
from tests.unit.kafkawire.message_values import declared_messages, message_of, versions

SEEDS = range(6)
MUTATIONS = 20
HUGE_LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff")

# Memory limit for decoding a few hundred bytes, regardless of the lengths in them.
PEAK_BYTES = 256 * 1024

EVERY_API = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
EVERY_MESSAGE = sorted(declared_messages(), key=lambda case: (case[0].__name__, case[1]))


def messages(api: Api) -> Iterator[tuple[type[object], int]]:
    for version in versions(api):
        yield api.request, version
        yield api.response, version


@EVERY_API
def test_every_message_round_trips(api: Api) -> None:
    for message_type, version in messages(api):
        for seed in SEEDS:
            message = message_of(message_type, version, seed)
            data = encode(message, version)
            assert decode(message_type, data, version) == message
            assert b"".join(encode_parts(message, version)) == data  # type: ignore[arg-type]


def test_the_random_messages_set_every_field_of_every_version() -> None:
    for message_type, version in EVERY_MESSAGE:
        layout = layout_of(message_type)
        drawn = [message_of(message_type, version, seed) for seed in range(12)]
        for each in layout.fields:
            if each.is_in(version):
                assert any(getattr(message, each.name) != each.default for message in drawn), (
                    message_type,
                    version,
                    each.name,
                )


@EVERY_API
def test_every_part_of_a_message_is_not_a_message(api: Api) -> None:
    for message_type, version in messages(api):
        data = encode(message_of(message_type, version, "cut"), version)
        for size in range(0, len(data), 1 + len(data) // 50):
            with pytest.raises(DecodeError):
                decode(message_type, data[:size], version)
        with pytest.raises(DecodeError, match="follow the message"):
            decode(message_type, data + b"\0", version)


@EVERY_API
@pytest.mark.fresh_seeds(1)
def test_damaged_bytes_are_a_message_or_a_decode_error(api: Api, seed: int) -> None:
    rng = random.Random(seed)
    for message_type, version in messages(api):
        data = bytearray(encode(message_of(message_type, version, seed), version))
        for _ in range(MUTATIONS):
            check(message_type, mutated(data, rng), version)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(EVERY_MESSAGE), st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_a_decode_error(
    case: tuple[type[object], int], data: bytes
) -> None:
    check(case[0], data, case[1])


@EVERY_API
def test_huge_lengths_cost_no_memory(api: Api) -> None:
    for message_type, version in messages(api):
        data = encode(message_of(message_type, version, "huge"), version)
        inputs = [
            data[:position] + huge + data[position + len(huge) :]
            for position in range(0, len(data) + 1, 1 + len(data) // 40)
            for huge in HUGE_LENGTHS
        ]
        check(message_type, data, version)
        tracemalloc.start()
        try:
            for each in inputs:
                check(message_type, each, version)
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak_bytes < PEAK_BYTES


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_a_header_or_a_decode_error(data: bytes) -> None:
    try:
        _, start = decode_request_header(memoryview(data))
    except DecodeError:
        pass
    else:
        assert start <= len(data)
    try:
        _, start = decode_response_header(ApiKey.METADATA, 12, memoryview(data))
    except DecodeError:
        pass
    else:
        assert start <= len(data)


def mutated(data: bytearray, rng: random.Random) -> bytes:
    """Return `data` with a changed byte or number, or with a removed or duplicated piece."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        position = rng.randrange(len(changed) + 1)
        length = rng.choice((0, 1, 1, 2, 4))
        piece = rng.choice(
            (rng.randbytes(1), b"\xff", b"\x80", b"\0", rng.randbytes(4), b"\x7f\xff\xff\xff", b"")
        )
        changed[position : position + length] = piece
    return bytes(changed)


def check(message_type: type[object], data: bytes, version: int) -> None:
    """Decode `data`; a message that can be decoded must survive encoding and decoding.

    The comparison uses bytes, because a NaN differs from itself.
    """
    try:
        message = decode(message_type, memoryview(data), version)
    except DecodeError:
        return
    encoded = encode(message, version)
    assert encode(decode(message_type, encoded, version), version) == encoded
