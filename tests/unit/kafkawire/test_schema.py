"""Encoding and decoding, with toy messages that have every kind of field."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kafkawire.declaration import layout_of
from kafkawire.errors import DecodeError, EncodeError, MisfitError
from kafkawire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from kafkawire.misfit import find_misfit
from kafkawire.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Records,
    array,
    decode,
    encode,
    encode_into,
    encode_parts,
    field,
    flexible_from,
    leading_numbers,
    message,
    source_of,
    struct,
    versions_of,
)


@struct
class Part:
    number: int = field(INT32)
    text: str | None = field(STRING, nullable=0, default=None)


@struct
class Nothing:
    added: int = field(INT8, since=9)


@message(versions=(0, 2), flexible=2)
class Everything:
    """A message with every type; version 2 is flexible."""

    flag: bool = field(BOOL)
    tiny: int = field(INT8)
    small: int = field(INT16)
    unsigned: int = field(UINT16)
    medium: int = field(INT32)
    unsigned_medium: int = field(UINT32)
    large: int = field(INT64)
    real: float = field(FLOAT64)
    id: uuid.UUID = field(UUID)
    text: str = field(STRING)
    data: bytes = field(BYTES)
    maybe_data: bytes | None = field(BYTES, nullable=1)
    part: Part = field(Part)
    maybe_part: Part | None = field(Part, nullable=0, default=None)
    numbers: Sequence[int] = field(array(INT16))
    maybe_numbers: Sequence[int] | None = field(array(INT64), nullable=0, default=None)
    texts: Sequence[str] = field(array(STRING))
    ids: Sequence[uuid.UUID] = field(array(UUID))
    parts: Sequence[Part] = field(array(Part))
    nothings: Sequence[Nothing] = field(array(Nothing))
    tagged_part: Part = field(Part, since=2, tag=5)
    tagged_numbers: Sequence[int] = field(array(INT32), since=2, tag=1, ignorable=True)
    records: Records | None = field(RECORDS)
    must_keep: int = field(INT32, since=1)
    must_keep_numbers: Sequence[int] | None = field(array(INT32), since=1, nullable=1)
    must_keep_id: uuid.UUID = field(UUID, since=1)
    may_drop: int = field(INT32, since=1, default=-1, ignorable=True)
    until_one: str | None = field(STRING, until=1, nullable=0, default=None)


ID = uuid.UUID(int=7)

FILLED = Everything(
    flag=True,
    tiny=-1,
    small=-2,
    unsigned=65535,
    medium=-3,
    unsigned_medium=2**32 - 1,
    large=-4,
    real=0.5,
    id=ID,
    text="ż" * 70,
    data=b"data",
    maybe_data=b"x" * 200,
    part=Part(number=1, text="one"),
    maybe_part=Part(number=2),
    numbers=[1, 2],
    maybe_numbers=[3] * 300,
    texts=["a", ""],
    ids=[ID],
    parts=[Part(number=3, text="three"), Part()],
    nothings=[Nothing(), Nothing()],
    records=b"records",
)


@dataclass
class Region:
    size_bytes: int


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_type_round_trips(version: int) -> None:
    assert decode(Everything, encode(FILLED, version), version) == FILLED
    assert decode(Everything, encode(Everything(), version), version) == Everything()


def test_the_bytes_before_flexible_versions() -> None:
    data = encode(MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 4)
    assert data.hex() == "00000001" + "0002" + "6162" + "01"
    assert encode(MetadataRequest(topics=None), 4).hex() == "ffffffff" + "01"


def test_the_bytes_of_flexible_versions() -> None:
    data = encode(MetadataRequest(topics=[MetadataRequestTopic(name="ab")]), 9)
    assert data.hex() == "02" + "03" + "6162" + "00" + "01" + "00" + "00" + "00"
    assert encode(MetadataRequest(topics=None), 9).hex() == "00" + "01" + "00" + "00" + "00"


def test_tagged_fields_are_written_in_the_order_of_their_tags_unless_default() -> None:
    before = encode(Everything(), 2)
    tagged = encode(Everything(tagged_part=Part(number=1), tagged_numbers=[7]), 2)
    assert before.endswith(b"\x00")
    tags = "02" + "01" + "05" + "02" + "00000007" + "05" + "06" + "00000001" + "00" + "00"
    assert tagged == before[:-1] + bytes.fromhex(tags)
    assert decode(Everything, tagged, 2).tagged_part == Part(number=1)
    assert decode(Everything, tagged, 2).tagged_numbers == [7]


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param("02" + "0506" + "0000000100" + "00" + "0105" + "0200000007", id="any order"),
        pytest.param(
            "03" + "0105" + "0200000009" + "0105" + "0200000007" + "0506" + "0000000100" + "00",
            id="the last duplicate counts",
        ),
        pytest.param(
            "03" + "0105" + "0200000007" + "0903" + "616263" + "0506" + "0000000100" + "00",
            id="unknown ones between",
        ),
    ],
)
def test_tagged_fields_are_read_as_leniently_as_kafka_reads_them(tags: str) -> None:
    data = encode(Everything(), 2)[:-1] + bytes.fromhex(tags)
    assert decode(Everything, data, 2) == Everything(tagged_part=Part(number=1), tagged_numbers=[7])


def test_any_byte_but_zero_is_true() -> None:
    assert decode(MetadataRequest, bytes.fromhex("ffffffff" + "07"), 4).allow_auto_topic_creation


def test_input_may_be_any_buffer() -> None:
    data = encode(FILLED, 2)
    for view in (data, bytearray(data), memoryview(data), memoryview(bytearray(data))):
        assert decode(Everything, view, 2) == FILLED


def test_records_are_read_as_views_of_the_input() -> None:
    data = bytearray(encode(FILLED, 2))
    records = decode(Everything, memoryview(data), 2).records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"records"
    data[data.index(b"records")] = ord("R")
    assert bytes(records) == b"Records"
    assert not records.readonly


def test_bytes_are_copied_out_of_the_input() -> None:
    data = bytearray(encode(FILLED, 2))
    assert type(decode(Everything, memoryview(data), 2).data) is bytes


def test_parts_contain_records_uncopied() -> None:
    records, region = bytearray(b"records"), Region(100)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(records=records),
                    PartitionData(records=b""),
                    PartitionData(records=region),
                    PartitionData(records=None),
                ],
            )
        ]
    )
    parts = encode_parts(response, 12)
    assert len(parts) == 5
    assert parts[1] is records
    assert parts[3] is region
    assert isinstance(parts[2], bytearray)
    assert parts[2].endswith(b"\x65")
    response.responses[0].partitions[2].records = b"x" * 100
    joined = b"".join(bytes(100) if part is region else bytes(part) for part in parts)  # type: ignore[arg-type]
    assert joined.replace(bytes(100), b"x" * 100) == encode(response, 12)


def test_parts_of_a_message_without_records_are_its_bytes() -> None:
    assert encode_parts(MetadataRequest(), 12) == [encode(MetadataRequest(), 12)]


def test_parts_start_with_the_given_head() -> None:
    head = bytearray(b"head")
    assert encode_parts(MetadataRequest(topics=None), 1, head) == [b"head\xff\xff\xff\xff"]


def test_a_region_cannot_be_encoded_into_bytes() -> None:
    with pytest.raises(EncodeError):
        encode(Everything(records=Region(1)), 0)


def test_a_field_that_the_version_lacks_is_dropped_only_when_ignorable() -> None:
    assert encode(Everything(may_drop=5), 0) == encode(Everything(), 0)
    for lost in (
        Everything(must_keep=1),
        Everything(must_keep_numbers=[1]),
        Everything(must_keep_numbers=None),
        Everything(must_keep_id=ID),
        Everything(tagged_part=Part(number=1)),
    ):
        with pytest.raises(EncodeError, match="is set, but version 0 does not have it"):
            encode(lost, 0)
    with pytest.raises(EncodeError, match=r"Everything\.until_one is set, but version 2"):
        encode(Everything(until_one="a"), 2)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tiny", 128, "tiny must be int8, got 128"),
        ("unsigned", -1, "unsigned must be uint16, got -1"),
        ("real", "a", "real must be float64, got 'a'"),
        ("medium", None, "medium must not be None"),
        ("text", None, "text must not be None"),
        ("text", 5, "text must be a string, got 5"),
        ("text", "x" * 32768, "text must have at most 32767 bytes, got 32768"),
        ("text", "\ud800", "text must be text that UTF-8 can hold"),
        ("numbers", [1, 2**15], r"numbers\[1\] must be int16, got 32768"),
        ("numbers", 5, "numbers must be a list or tuple, got 5"),
        ("texts", ["a", None], r"texts\[1\] must not be None"),
        ("parts", [Part(number=1), Part(number=2**31)], r"parts\[1\].number must be int32"),
        ("part", Part(text="x" * 40000), "part.text must have at most 32767"),
        ("part", None, "part must not be None"),
        ("maybe_part", Part(number=-(2**31) - 1), "maybe_part.number must be int32"),
        ("id", "no id", "'str' object has no attribute 'bytes'"),
    ],
)
def test_an_encode_error_names_the_field_and_the_value(
    version: int, name: str, value: object, reason: str
) -> None:
    wrong = Everything()
    setattr(wrong, name, value)
    with pytest.raises(EncodeError, match=f"Everything v{version}: .*{reason}"):
        encode(wrong, version)


def test_valid_message_has_no_misfit() -> None:
    assert find_misfit(layout_of(Everything), FILLED, 2) is None


def test_null_is_refused_in_versions_where_it_is_not_allowed() -> None:
    assert decode(Everything, encode(Everything(maybe_data=None), 1), 1).maybe_data is None
    with pytest.raises(EncodeError, match="maybe_data must not be None") as caught:
        encode(Everything(maybe_data=None), 0)
    assert not isinstance(caught.value, MisfitError), "a newer version can carry it"
    with pytest.raises(MisfitError, match="tiny must be int8"):
        encode(Everything(tiny=128), 0)


def test_failed_encode_leaves_the_buffer_unchanged() -> None:
    out = bytearray(b"before")
    encode_into(out, MetadataRequest(topics=None), 1)
    assert out == b"before\xff\xff\xff\xff"
    with pytest.raises(EncodeError):
        encode_into(out, MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 1)
    assert out == b"before\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("data", "version", "reason"),
    [
        pytest.param("", 0, "malformed", id="nothing"),
        pytest.param("", 9, "malformed", id="nothing, flexible"),
        pytest.param("0000", 0, "malformed", id="half a length"),
        pytest.param("00000000" + "00", 0, "1 bytes follow", id="trailing byte"),
        pytest.param("01" + "01" + "00" + "00" + "00" + "ff", 9, "1 bytes follow", id="trailing"),
        pytest.param("ffffffff", 0, "topics is null", id="null array"),
        pytest.param("fffffffe", 1, "topics has length -2", id="negative length"),
        pytest.param("7fffffff", 0, "topics has 2147483647 elements", id="huge array"),
        pytest.param("ffffffff0f", 9, "topics has 4294967294 elements", id="huge compact array"),
        pytest.param("ffffffffff0f", 9, "more than 5 bytes", id="endless varint"),
        pytest.param("00000001" + "ffff", 0, "name is null", id="null string"),
        pytest.param("00000001" + "fffe", 0, "name has length -2", id="negative string"),
        pytest.param("00000001" + "0003" + "6162", 0, "name has 3 bytes, 2 are left", id="short"),
        pytest.param(
            "00000001" + "4000" + 0x4000 * "ff", 0, "name has 49152 bytes", id="long text"
        ),
        pytest.param("02" + "00", 9, "1 elements, which 1 bytes", id="too few bytes"),
        pytest.param("02" + "00" + "00", 9, "name is null", id="null compact string"),
        pytest.param("02" + "818002" + "00", 9, "at most 32767", id="long string"),
        pytest.param("00" + "01" + "00" + "00" + "01", 9, "malformed", id="half a tag"),
        pytest.param("00" + "01" + "00" + "00" + "010105", 9, "has 5 bytes", id="long tag"),
    ],
)
def test_malformed_input_is_a_decode_error_that_says_why(
    data: str, version: int, reason: str
) -> None:
    with pytest.raises(DecodeError, match=rf"MetadataRequest v{version}.*{reason}"):
        decode(MetadataRequest, bytes.fromhex(data), version)


@pytest.mark.parametrize(("data", "version"), [("0000000100026cff", 0), ("02036cff0001000000", 9)])
def test_malformed_bytes_of_a_string_are_replaced_as_in_kafka(data: str, version: int) -> None:
    found = decode(MetadataRequest, bytes.fromhex(data), version)
    assert found.topics is not None
    assert [each.name for each in found.topics] == ["l\ufffd"]
    assert decode(MetadataRequest, encode(found, version), version) == found


def test_a_tagged_field_must_fill_its_bytes() -> None:
    data = encode(Everything(), 2)[:-1] + bytes.fromhex("01" + "0106" + "0200000007" + "00")
    with pytest.raises(DecodeError, match="tagged field 1 ends at byte"):
        decode(Everything, data, 2)


def test_an_array_of_empty_structs_is_no_longer_than_the_input() -> None:
    data = encode(Everything(), 0)
    assert decode(Everything, data, 0).nothings == []
    at = len(data) - len(encode(Everything(), 0)[-10:])
    # nothings, records and until_one are the last 4 + 4 + 2 bytes.
    assert data[at : at + 4] == bytes(4)
    huge = data[:at] + b"\x7f\xff\xff\xff" + data[at + 4 :]
    with pytest.raises(DecodeError, match="nothings has 2147483647 elements"):
        decode(Everything, huge, 0)


@pytest.mark.parametrize("version", [-1, 3])
def test_versions_that_are_not_declared_are_refused(version: int) -> None:
    with pytest.raises(EncodeError, match=f"versions 0-2, not {version}"):
        encode(Everything(), version)
    with pytest.raises(DecodeError, match=f"versions 0-2, not {version}"):
        decode(Everything, b"", version)


def test_declared_versions_can_be_queried() -> None:
    assert versions_of(Everything) == (0, 2)
    assert flexible_from(Everything) == 2
    with pytest.raises(AssertionError, match="Part is part of messages"):
        versions_of(Part)


def test_elements_of_all_arrays_together_are_limited() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(3)])
    for version in (1, 12):
        data = encode(message, version)
        assert decode(MetadataRequest, data, version, 3) == message
        with pytest.raises(DecodeError, match="topics makes it more elements"):
            decode(MetadataRequest, data, version, 2)


def test_numbers_are_elements_too() -> None:
    topic = StopReplicaTopicV1(name="t", partition_indexes=[1, 2, 3])
    message = StopReplicaRequest(topics=[topic])
    data = encode(message, 1)
    assert decode(StopReplicaRequest, data, 1, 4).topics == [topic]
    with pytest.raises(DecodeError, match="more elements"):
        decode(StopReplicaRequest, data, 1, 3)


@pytest.mark.parametrize("count", [17, 128])
def test_tagged_fields_read_are_limited(count: int) -> None:
    data = encode(FetchRequest(), 17)[:-1] + bytes([count]) + bytes(2 * count)
    with pytest.raises(DecodeError, match=f"{count} tagged fields; at most 16"):
        decode(FetchRequest, data, 17)


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (0, {"controller_id": 1, "controller_epoch": 7, "delete_partitions": True}),
        (3, {"controller_id": 1, "controller_epoch": 7, "broker_epoch": 50}),
        (
            4,
            {
                "controller_id": 1,
                "is_kraft_controller": False,
                "controller_epoch": 7,
                "broker_epoch": 50,
            },
        ),
    ],
)
def test_leading_numbers_are_read_alone(version: int, fields: dict[str, Any]) -> None:
    message = StopReplicaRequest(**fields, topic_states=[], ungrouped_partitions=[])
    data = encode(message, version)
    assert leading_numbers(StopReplicaRequest, data, version) == fields
    size = len(data) - (4 if version == 0 else 2)
    assert leading_numbers(StopReplicaRequest, data[:size], version) == fields
    with pytest.raises(DecodeError, match=f"StopReplicaRequest v{version} is too short"):
        leading_numbers(StopReplicaRequest, data[: size - 1], version)


def test_tagged_fields_are_not_among_the_leading_numbers() -> None:
    message = UpdateMetadataRequest(type=1, topic_states=[], live_brokers=[])
    assert "type" not in leading_numbers(UpdateMetadataRequest, encode(message, 8), 8)


def test_the_generated_source_can_be_read() -> None:
    source = source_of(MetadataRequest, 12)
    assert "def read(buf, items_left):" in source
    assert "def write(out, m, parts):" in source
    compile(source, "source", "exec")
