"""The compiled scanner and the plain loops have the same result or error for any bytes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from kafkawire import records_loops
from kafkawire.errors import CorruptBatchError, EncodeError, WireError
from kafkawire.native import compiled
from kafkawire.records import (
    BatchBuilder,
    BatchHeader,
    Codec,
    Record,
    TimestampType,
    read_header,
    validate_produced,
    write_header,
)
from tests.property.kafkawire.record_strategies import calmly, damaged, record_lists
from tests.unit.kafkawire.batches import Fields, batch_of, with_header

TWINS: list[ModuleType] = [records_loops, *filter(None, [compiled("_records")])]

base_offsets = st.one_of(st.integers(0, 10**6), st.just(2**63 - 2**31 - 1))
base_times = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 2**63 - 1, -(2**63)]))
append_times = st.one_of(st.none(), st.integers(-1, 2**63 - 1))


class Wide(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


shapes = st.sampled_from(
    [(Record, (), ()), (tuple, (), ()), (tuple, (1,), ()), (Wide, ("topic", 3), (9,))]
)


def outcome(call: Callable[..., object], *arguments: Any) -> object:
    try:
        return call(*arguments)
    except WireError as error:
        return type(error)


def section_of(twin: ModuleType, appended: list[Fields], **options: int) -> Any:
    buffer = twin.RecordBuffer(**options)
    return buffer, [outcome(buffer.append, *record) for record in appended]


@calmly
@given(record_lists, st.sampled_from([0, 61]), st.sampled_from([2**31 - 1, 200]))
def test_both_write_the_same(appended: list[Fields], reserved: int, limit: int) -> None:
    written = []
    for twin in TWINS:
        buffer, answers = section_of(twin, appended, reserved_bytes=reserved, limit_bytes=limit)
        written.append(
            (
                answers,
                buffer.to_bytearray(),
                buffer.records(),
                buffer.size_bytes,
                buffer.record_count,
                buffer.base_timestamp_ms,
                buffer.max_timestamp_ms,
            )
        )
    assert written[0] == written[-1]
    assert written[0][1] == bytes(reserved) + written[0][2]


@calmly
@given(st.lists(st.integers(-(2**65), 2**65), max_size=6))
def test_both_refuse_the_same_timestamps(times_ms: list[int]) -> None:
    answers = [section_of(twin, [(time, None, b"", ()) for time in times_ms]) for twin in TWINS]
    assert answers[0][1] == answers[-1][1]
    assert answers[0][0].records() == answers[-1][0].records()


@calmly
@given(st.data(), record_lists, base_offsets, base_times, append_times, shapes)
def test_both_read_the_same(
    data: st.DataObject,
    appended: list[Fields],
    base_offset: int,
    base_time_ms: int,
    append_time_ms: int | None,
    shape: Any,
) -> None:
    section = section_of(records_loops, appended)[0].records()
    count = len(appended)
    if data.draw(st.booleans()):
        section = data.draw(damaged(section))
        count += data.draw(st.sampled_from([0, 0, 0, 1, -1, 2**31]))
    reads = [
        outcome(twin.read_rows, section, count, base_offset, base_time_ms, append_time_ms, *shape)
        for twin in TWINS
    ]
    assert reads[0] == reads[-1]
    for rows in reads:
        if isinstance(rows, list):
            assert {type(row) for row in rows} <= {shape[0]}
    surveys = [outcome(twin.survey_records, section, count, base_time_ms) for twin in TWINS]
    assert surveys[0] == surveys[-1]


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Draw a batch as a producer sends it, or a damaged one, perhaps with a wrong checksum."""
    builder = BatchBuilder(draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP])))
    for record in draw(record_lists):
        builder.append(*record)
    batch = bytes(builder.build())
    place = draw(st.integers(21, len(batch) - 1))
    bits = draw(st.sampled_from([0, 0, 1, 8, 0xFF]))
    changed = batch[:place] + bytes([batch[place] ^ bits]) + batch[place + 1 :]
    try:
        read_header(changed)
    except CorruptBatchError:
        # Such a header cannot be written again with a right checksum.
        reject()
    return changed


limits_ms = st.integers(0, 2**63 - 1)
rules = st.tuples(st.booleans(), st.booleans(), st.integers(-1, 2**63 - 1), limits_ms, limits_ms)
Rules = tuple[bool, bool, int, int, int]


def batch_at(timestamp_ms: int) -> bytes:
    """Return a batch of one record, whose largest timestamp counts as absent."""
    builder = BatchBuilder()
    builder.append(0, None, b"value")
    batch = builder.build()
    times = {"base_timestamp_ms": timestamp_ms, "max_timestamp_ms": -1}
    write_header(batch, read_header(batch)._replace(**times))
    return bytes(batch)


@calmly
@given(batches(), st.booleans(), st.sampled_from([2**20, 2**20, 100]), rules)
@example(batch_at(-2), True, 2**20, (False, True, 0, 0, 0))
def test_both_find_the_same_batches_plain(
    batch: bytes, is_sound: bool, most_bytes: int, asked: Rules
) -> None:
    sound = bytearray(batch)
    if is_sound:
        write_header(sound, read_header(batch))
    view = memoryview(sound)
    answers = [twin.read_plain_batch(view, most_bytes, *asked) for twin in TWINS]
    assert answers[0] == answers[-1]
    assert {type(answer) for answer in answers} <= {BatchHeader, type(None)}


@calmly
@given(batches(), rules)
def test_plain_batch_passes_the_full_validation_unchanged(batch: bytes, asked: Rules) -> None:
    needs_key, times_matter, now_ms, before_max_ms, after_max_ms = asked
    sound = bytearray(batch)
    write_header(sound, read_header(batch))
    view, before = memoryview(sound), bytes(sound)
    plain = TWINS[-1].read_plain_batch(view, len(sound), *asked)
    if plain is None:
        return
    # The full validation, which checks each rule separately.
    header = validate_produced(
        view,
        compacted=needs_key,
        max_batch_bytes=len(sound),
        timestamp_type=TimestampType(not times_matter),
        now_ms=now_ms,
        timestamp_before_max_ms=before_max_ms,
        timestamp_after_max_ms=after_max_ms,
    )
    assert header == plain == read_header(before)
    assert sound == before


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_both_refuse_headers_that_can_be_read_only_once(twin: ModuleType) -> None:
    with pytest.raises(TypeError, match="no len"):
        twin.RecordBuffer().append(0, None, b"v", iter([("h", b"v")]))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_producer_that_has_an_id_counts_its_records(twin: ModuleType) -> None:
    batch = batch_of((1, b"k", b"v", ()))
    for sequence, is_plain in ((0, True), (-1, False)):
        view = memoryview(with_header(batch, producer_id=1, base_sequence=sequence))
        found = twin.read_plain_batch(view, len(view), True, True, 1, 1, 1)
        assert (found is not None) is is_plain


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize(
    ("changes", "is_plain"),
    [({}, True), ({"last_offset_delta": 5}, False), ({"max_timestamp_ms": 7}, False)],
)
def test_a_header_that_its_records_contradict_is_not_plain(
    twin: ModuleType, changes: dict[str, int], is_plain: bool
) -> None:
    batch = with_header(batch_of((1, b"k", b"v", ())), **changes)
    found = twin.read_plain_batch(memoryview(batch), len(batch), True, True, 1, 1, 1)
    assert (found is not None) is is_plain


@calmly
@given(st.binary(max_size=100), rules)
def test_both_agree_whether_arbitrary_bytes_are_plain(data: bytes, asked: Rules) -> None:
    view = memoryview(data)
    answers = [twin.read_plain_batch(view, 2**20, *asked) for twin in TWINS]
    assert answers[0] == answers[-1]


@calmly
@given(base_offsets, st.integers(-(2**31), 2**31 - 1))
def test_both_assign_the_same_offsets(base_offset: int, leader_epoch: int) -> None:
    stamped = []
    for twin in TWINS:
        batch = bytearray(batch_of((1, b"k", b"v", ())))
        twin.assign_offsets(memoryview(batch), base_offset, leader_epoch)
        stamped.append(batch)
    assert stamped[0] == stamped[-1]
    header = read_header(stamped[-1])
    assert (header.base_offset, header.leader_epoch) == (base_offset, leader_epoch)


@calmly
@given(st.binary(max_size=80), st.integers(0, 12))
def test_both_agree_about_arbitrary_bytes(section: bytes, count: int) -> None:
    reads = [outcome(twin.read_rows, section, count, 0, 0, None, Record, (), ()) for twin in TWINS]
    assert reads[0] == reads[-1]
    surveys = [outcome(twin.survey_records, section, count, 0) for twin in TWINS]
    assert surveys[0] == surveys[-1]
    assert isinstance(surveys[0], type) == isinstance(reads[0], type)


def varint_of(number: int) -> bytes:
    """Return the bytes of an unsigned number, seven bits each."""
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


varints = st.one_of(
    st.integers(0, 2**70).map(varint_of),
    st.sampled_from([0, 1, 2, 126, 127, 128, 2**32 - 1, 2**32, 2**64 - 1, 2**64]).map(varint_of),
    # Overlong encodings.
    st.integers(0, 10).map(lambda count: b"\x80" * count + b"\0"),
)


@calmly
@given(st.integers(0, 4), varints, st.binary(max_size=3))
def test_both_agree_about_varints_of_every_size(place: int, number: bytes, tail: bytes) -> None:
    """A record is valid except for one number."""
    numbers = [b"\0", b"\0", b"\1", b"\1", b"\0"]
    numbers[place] = number
    body = b"\0" + b"".join(numbers) + tail
    section = varint_of(2 * len(body)) + body
    reads = [outcome(twin.read_rows, section, 1, 0, 0, None, Record, (), ()) for twin in TWINS]
    assert reads[0] == reads[-1]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ("0b 00 00 00 01 01 00", "negative record length"),
        ("0a 00 00 00 01 01 00", "record one byte longer than it says"),
        ("0e 00 00 00 01 01 00", "record one byte shorter than it says"),
        ("0e 00 00 00 01 01 00 00", "record with a byte behind its headers"),
        ("0c 00 00 00 01 01 00 00", "section with a byte behind its record"),
        ("0c 00 00 00 02 01 00", "key beyond the end"),
        ("0c 00 00 00 01 02 00", "value beyond the end"),
        ("0c 00 00 00 01 01 02", "header beyond the end"),
        ("0c 00 00 00 01 01 01", "negative count of headers"),
        ("10 00 00 00 01 01 02 01 01", "negative length of a header's key"),
        ("0e 00 00 00 01 01 02 01", "negative length of a header's key, taken for its value's"),
        ("10 00 00 00 01 01 02 00 02", "header's value beyond the end"),
        ("14 00 00 00 ff ff ff ff 1f 01 00", "key length of 33 bits"),
        ("16 00 00 00 81 80 80 80 80 00 01 00", "key length of six bytes"),
        ("1e 00 ff ff ff ff ff ff ff ff ff 02 00 01 01 00", "timestamp of 65 bits"),
        ("20 00 81 80 80 80 80 80 80 80 80 80 00 00 01 01 00", "timestamp of eleven bytes"),
    ],
    ids=lambda value: value if "0" not in value else "",
)
def test_damage_of_each_kind_is_refused(twin: ModuleType, section: str, fault: str) -> None:
    data = bytes.fromhex(section)
    with pytest.raises(CorruptBatchError):
        assert twin.read_rows(data, 1, 0, 0, None, tuple, (), ()), fault
    with pytest.raises(CorruptBatchError):
        twin.survey_records(data, 1, 0)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize(
    ("section", "row"),
    [
        ("0c 00 00 00 01 01 00", (0, 0, None, None, ())),
        ("0c 07 01 03 01 01 00", (-2, -1, None, None, ())),
        ("0c 00 00 00 03 05 00", (0, 0, None, None, ())),
        ("10 00 00 00 80 00 80 00 00", (0, 0, b"", b"", ())),
        ("14 00 00 00 ff ff ff ff 0f 01 00", (0, 0, None, None, ())),
        ("1e 00 ff ff ff ff ff ff ff ff ff 01 00 01 01 00", (0, -(2**63), None, None, ())),
        ("10 00 00 00 01 01 02 00 03", (0, 0, None, None, (("", None),))),
    ],
)
def test_unusual_but_valid_records_are_read(
    twin: ModuleType, section: str, row: tuple[object, ...]
) -> None:
    assert twin.read_rows(bytes.fromhex(section), 1, 0, 0, None, tuple, (), ()) == [row]


def test_both_write_and_read_many_records() -> None:
    """There are enough records that lengths and offset deltas exceed the varint tables."""
    appended: list[Fields] = [(n * 1000, None, b"x" * (n % 3), ()) for n in range(10_000)]
    appended += [(0, b"x" * 10_000, b"y" * 2_100_000, (("name", b"z" * 5_000),))]
    buffers = [section_of(twin, appended)[0].records() for twin in TWINS]
    assert buffers[0] == buffers[-1]
    for twin in TWINS:
        rows = twin.read_rows(buffers[0], len(appended), 0, 0, None, tuple, (), ())
        assert [row[1:] for row in rows] == appended


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_a_survey_sums_up_the_records(twin: ModuleType) -> None:
    appended: list[Fields] = [
        (-1, b"key", None, ()),
        (50, b"key", None, ()),
        (40, None, None, ()),
        (70, None, b"", ()),
    ]
    section = section_of(twin, appended)[0].records()
    assert twin.survey_records(section, 4, -1) == (40, 70, 2, -1)
    first = section[: 1 + (section[0] >> 1)]
    assert twin.survey_records(first * 3, 3, -1) == (-1, -1, -1, 1)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_rows_need_a_tuple_class(twin: ModuleType) -> None:
    with pytest.raises(TypeError):
        twin.read_rows(bytes.fromhex("0c000000010100"), 1, 0, 0, None, list, (), ())


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_bytes_like_object_is_accepted(
    twin: ModuleType, kind: type[bytearray | memoryview]
) -> None:
    plain, other = twin.RecordBuffer(), twin.RecordBuffer()
    plain.append(0, b"key", b"value", [("name", b"header")])
    other.append(0, kind(b"key"), kind(b"value"), [("name", kind(b"header"))])
    assert other.records() == plain.records()
    section = kind(plain.records())
    assert twin.read_rows(section, 1, 0, 0, None, tuple, (), ())[0][2:4] == (b"key", b"value")
    assert twin.survey_records(section, 1, 0).first_without_key == -1


def test_a_batch_cannot_outgrow_its_length_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain loops get a smaller limit than 2 GiB; the compiled twin's is a constant."""
    monkeypatch.setattr(records_loops, "_MAX_INT32", 100)
    buffer = records_loops.RecordBuffer()
    assert buffer.append(0, None, b"x" * 80) == 0
    with pytest.raises(EncodeError, match="at most 100 bytes, not 110"):
        buffer.append(0, None, b"x" * 14)
