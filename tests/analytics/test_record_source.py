"""The options, offsets and tasks of the records source, without a Spark session."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.errors import DataLossError, RecordsUsageError
from analytics.file_store import read_bytes
from analytics.record_source import KafkaRecords
from analytics.records.offset_choice import (
    EARLIEST,
    LATEST,
    TopicChoice,
    from_json,
    limited,
    read_position,
    resolve,
    to_json,
)
from kafkawire.ids import TopicPartition
from tests.analytics.log_model import Log, make_log

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
INTERNAL = TopicPartition("__consumer_offsets", 0)
EVERY = (A0, A1, B0, INTERNAL)


class Schema:
    """The schema of a query, of which the source reads the names."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)


OFFSETS = Schema("partition", "offset")


def accepted(**options: str) -> list[TopicPartition]:
    choice = TopicChoice(options, ("__consumer_offsets",))
    return [partition for partition in EVERY if choice.accepts(partition)]


@pytest.mark.parametrize(
    ("options", "partitions"),
    [
        pytest.param({}, [A0, A1, B0], id="all but internal ones"),
        pytest.param({"subscribe": "b, a,"}, [A0, A1, B0], id="by name"),
        pytest.param({"subscribe": "__consumer_offsets"}, [INTERNAL], id="an internal one"),
        pytest.param({"subscribePattern": "[b-z]"}, [B0], id="by pattern"),
        pytest.param({"assign": '{"a": [1], "b": [0, 7]}'}, [A1, B0], id="by number"),
    ],
)
def test_topics_are_chosen_as_in_spark(
    options: dict[str, str], partitions: list[TopicPartition]
) -> None:
    assert accepted(**options) == partitions


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign exclude each other"),
        ({"subscribe": " ,"}, "subscribe names no topic"),
        ({"subscribePattern": "("}, "subscribePattern is not a regular expression: "),
        ({"assign": "a"}, "assign must have the form"),
        ({"assign": '{"a": 1}'}, "assign must have the form"),
        ({"assign": '{"a": [-1]}'}, "assign must have the form"),
        ({"startingTimestamp": "1"}, "startingTimestamp is not supported"),
    ],
)
def test_a_wrong_choice_of_topics_is_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(RecordsUsageError, match=sentence):
        accepted(**options)


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"subscribe": "a,c,d"}, "c, d"), ({"assign": '{"a": [0, 5]}'}, "a-5")],
)
def test_named_topics_must_be_there(options: dict[str, str], missing: str) -> None:
    with pytest.raises(RecordsUsageError, match=f"no log of {missing} is in the directories"):
        TopicChoice(options, ()).check_found([A0, A1])
    TopicChoice({"subscribePattern": "c"}, ()).check_found([])


def test_positions_are_names_or_an_offset_per_partition() -> None:
    assert read_position("startingOffsets", " Earliest") == EARLIEST
    assert read_position("endingOffsets", "latest", forbidden=EARLIEST) == LATEST
    offsets = read_position("startingOffsets", '{"a": {"0": 23, "1": -2}, "b": {"0": -1}}')
    assert offsets == {A0: 23, A1: EARLIEST, B0: LATEST}
    first, last = {A0: 1, A1: 2, B0: 3}, {A0: 10, A1: 20, B0: 30}
    assert resolve("startingOffsets", offsets, first, last) == {A0: 23, A1: 2, B0: 30}
    assert resolve("startingOffsets", LATEST, first, last) == last


@pytest.mark.parametrize(
    "text",
    ["first", "[]", '{"a": 5}', '{"a": {"x": 5}}', '{"a": {"0": -3}}', '{"a": {"0": true}}'],
)
def test_a_malformed_position_is_one_sentence(text: str) -> None:
    with pytest.raises(RecordsUsageError, match="startingOffsets must have the form"):
        read_position("startingOffsets", text)


@pytest.mark.parametrize(
    ("name", "forbidden", "text"),
    [
        ("startingOffsets", LATEST, "latest"),
        ("startingOffsets", LATEST, '{"a": {"0": -1}}'),
        ("endingOffsets", EARLIEST, "earliest"),
    ],
)
def test_a_batch_neither_begins_at_the_end_nor_ends_at_the_beginning(
    name: str, forbidden: int, text: str
) -> None:
    with pytest.raises(RecordsUsageError, match=f"{name} cannot be"):
        read_position(name, text, forbidden)


def test_positions_name_exactly_the_partitions_that_are_read() -> None:
    with pytest.raises(RecordsUsageError, match="no more and no fewer; it differs in a-1, b-0"):
        resolve("startingOffsets", {A0: 1, B0: 1}, {A0: 0, A1: 0}, {A0: 1, A1: 1})


def test_offsets_survive_a_checkpoint() -> None:
    offsets = {A0: 5, A1: 0, B0: 2**40}
    assert to_json(offsets) == {"a": {"0": 5, "1": 0}, "b": {"0": 2**40}}
    assert from_json(to_json(offsets)) == offsets


def test_a_limit_is_shared_by_the_backlogs() -> None:
    start, end = {A0: 10, A1: 0}, {A0: 110, A1: 1, B0: 300}
    assert limited(start, end, 1000) == end
    assert limited(start, end, 40) == {A0: 10 + 10, A1: 1, B0: 30}
    assert limited(start, {A0: 10, B0: 50}, 5) == {A0: 10, B0: 5}


# The source


def batch(*places: Path, **options: str) -> Any:
    paths = ",".join(map(str, places))
    return KafkaRecords({"paths": paths, **options}).reader(OFFSETS)


def stream(*places: Path, **options: str) -> Any:
    paths = ",".join(map(str, places))
    return KafkaRecords({"paths": paths, **options}).streamReader(OFFSETS)


def offsets_of(reader: Any, *bounds: dict[str, Any]) -> list[tuple[int, int]]:
    return [
        (row["partition"], row["offset"])
        for task in reader.partitions(*bounds)
        for each in reader.read(task)
        for row in each.to_pylist()
    ]


def test_the_schema_has_headers_only_if_they_are_wanted() -> None:
    assert KafkaRecords({}).schema().endswith("timestampType int")
    assert "headers array<struct<" in KafkaRecords({"includeHeaders": "TRUE"}).schema()


def test_ranges_of_any_size_yield_every_record_once(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path)
    reader = batch(tmp_path, **{"range.bytes": "700"})
    assert len(reader.partitions()) > 8
    assert sorted(offsets_of(reader)) == [(part, n) for part in range(2) for n in range(400)]


def test_only_the_indexes_of_the_wanted_segments_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log().write(tmp_path)
    reader, names = stream(tmp_path, **{"range.bytes": "700"}), list[str]()

    def read(place: str) -> bytes:
        names.append(Path(place).name)
        return read_bytes(place)

    monkeypatch.setattr("analytics.segment_range.read_bytes", read)
    found = offsets_of(reader, {"orders": {"0": 150}}, {"orders": {"0": 210}})
    assert found == [(0, n) for n in range(150, 210)]
    assert names == ["00000000000000000100.index", "00000000000000000200.index"]


def test_offsets_bound_a_batch(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path)
    reader = batch(
        tmp_path,
        subscribe="orders",
        startingOffsets='{"orders": {"0": 103, "1": -2}}',
        endingOffsets='{"orders": {"0": -1, "1": 2}}',
    )
    assert sorted(offsets_of(reader)) == [*((0, n) for n in range(103, 400)), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("start", "end", "sentence"),
    [
        (10, 400, "orders-0 begins at offset 100, expected 10"),
        (100, 500, "orders-0 ends at offset 400, expected 500"),
        (300, 200, "orders-0 ends at offset 200, before the start at 300"),
    ],
)
def test_missing_offsets_are_an_error_or_are_skipped(
    tmp_path: Path, start: int, end: int, sentence: str
) -> None:
    replace(make_log(), log_start=100).write(tmp_path)
    options = {
        "startingOffsets": f'{{"orders": {{"0": {start}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {end}}}}}',
    }
    with pytest.raises(DataLossError, match=sentence):
        batch(tmp_path, **options).partitions()
    reader = batch(tmp_path, failOnDataLoss="false", **options)
    assert offsets_of(reader) == [(0, n) for n in range(max(start, 100), min(end, 400))]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"paths": ""}, "give a log directory"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted or read_committed"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false, got maybe"),
        ({"range.bytes": "-5"}, "range.bytes must be a positive number, got -5"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(RecordsUsageError, match=sentence):
        batch(tmp_path, **options)


def test_a_column_of_another_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordsUsageError, match="has no column fingerprint; its columns are key,"):
        KafkaRecords({"path": str(tmp_path)}).reader(Schema("fingerprint"))


def grow(root: Path, count: int, *, partition: int = 0, log_start: int = 0) -> None:
    log = make_log(partition=partition)
    segments = [
        (base, [each for each in batches if each.last < count]) for base, batches in log.segments
    ]
    kept = [(base, batches) for base, batches in segments if batches or base == 0]
    Log(partition=partition, segments=kept, log_start=log_start).write(root)


def test_a_stream_yields_each_record_once_while_logs_grow(tmp_path: Path) -> None:
    grow(tmp_path, 50)
    reader = stream(tmp_path, startingOffsets="earliest")
    offset, seen = reader.initialOffset(), []
    assert offset == {"orders": {"0": 0}}
    for count in (50, 120, 400):
        grow(tmp_path, count)
        if count == 120:
            grow(tmp_path, 30, partition=1)
        end = reader.latestOffset(offset, None)
        seen += offsets_of(reader, offset, end)
        offset = end
    assert offsets_of(reader, offset, reader.latestOffset(offset, None)) == []
    assert sorted(seen) == [*((0, n) for n in range(400)), *((1, n) for n in range(30))]


def test_a_stream_begins_at_the_end_and_has_a_limit(tmp_path: Path) -> None:
    grow(tmp_path, 50)
    reader = stream(tmp_path, maxOffsetsPerTrigger="15")
    offset, ends = reader.initialOffset(), []
    grow(tmp_path, 100)
    limit = reader.getDefaultReadLimit()
    for _ in range(4):
        offset = reader.latestOffset(offset, limit)
        ends.append(offset["orders"]["0"])
    assert ends == [65, 80, 95, 100]


def test_a_stream_does_not_go_back_and_misses_no_retention(tmp_path: Path) -> None:
    grow(tmp_path, 200)
    reader = stream(tmp_path)
    start = reader.initialOffset()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 100\n")
    assert reader.latestOffset(start, None) == start
    (tmp_path / "replication-offset-checkpoint").unlink()
    make_log().write(tmp_path)
    replace(make_log(), log_start=250).write(tmp_path)
    end = reader.latestOffset(start, None)
    with pytest.raises(DataLossError, match="orders-0 begins at offset 250, expected 200"):
        reader.partitions(start, end)
    gone = {"orders": {"0": 400, "9": 5}}
    with pytest.raises(DataLossError, match="the log of orders-9 is gone"):
        reader.partitions({"orders": {"0": 400}}, gone)


def test_a_topic_that_was_created_again_is_an_error_of_its_stream(tmp_path: Path) -> None:
    grow(tmp_path, 200)
    start = stream(tmp_path).initialOffset()
    shutil.rmtree(tmp_path / "orders-0")
    grow(tmp_path, 40)
    sentence = "orders-0 ends at offset 40, but is read up to 200: the replica lags, or the topic"
    with pytest.raises(DataLossError, match=sentence):
        stream(tmp_path).latestOffset(start, None)
    reader = stream(tmp_path, failOnDataLoss="false")
    end = reader.latestOffset(start, None)
    assert offsets_of(reader, start, end) == []
    grow(tmp_path, 90)
    assert offsets_of(reader, end, reader.latestOffset(end, None)) == [
        (0, n) for n in range(40, 90)
    ]


def test_a_stream_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(RecordsUsageError, match="endingOffsets is only for batch queries"):
        stream(tmp_path, endingOffsets="latest")
