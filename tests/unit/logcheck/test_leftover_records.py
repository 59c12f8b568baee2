"""Records between a missing one and its successor show that no other cleaner removed it."""

from kafkawire.native import KeyTable
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder
from logcheck.history import History
from logcheck.leftover_records import Leftovers, Successors
from logcheck.log_view import Observer
from logcheck.transaction_ranges import Transaction
from logcheck.unseen_record import NO_SUCCESSOR, Spans
from tests.unit.logcheck.partition_bytes import FIRST_TIMESTAMP_MS
from tests.unit.logcheck.producer_bytes import marker, scan_of

PRODUCER_ID = 7


def log(keys: str) -> list[bytearray]:
    """Return a log of one batch per key; capital letters are in transactions, a dot is a marker."""
    batches = []
    for offset, key in enumerate(keys):
        if key == ".":
            batches.append(marker(offset))
            continue
        named = (PRODUCER_ID, 0, offset) if key.isupper() else (-1, -1, -1)
        builder = BatchBuilder(
            producer_id=named[0],
            producer_epoch=named[1],
            base_sequence=named[2],
            is_transactional=key.isupper(),
        )
        builder.append(FIRST_TIMESTAMP_MS, key.lower().encode(), b"value")
        batches.append(builder.build(offset))
    return batches


def scan(keys: str, observer: Observer) -> None:
    scan_of(log(keys), history=History()).run([observer])


def successors(keys: str, *offsets: int, aborted: tuple[Transaction, ...] = ()) -> dict[int, int]:
    """Return the first later offset of the keys of the records at `offsets`."""
    table, spans = KeyTable(100), Spans(offsets)
    for offset in offsets:
        section = bytes(log(keys)[offset])[BATCH_HEADER_BYTES:]
        table.note(section, 1, offset, FIRST_TIMESTAMP_MS, None, 100)
    scan(keys, Successors(table, aborted, spans))
    found = zip(offsets, spans.successors, strict=True)
    return {offset: successor for offset, successor in found if successor != NO_SUCCESSOR}


def contradicted(
    keys: str, spans: dict[int, int], aborted: tuple[Transaction, ...] = ()
) -> set[int]:
    ends = Spans(sorted(spans))
    for offset, successor in spans.items():
        ends.end_at(offset, successor)
    found = Leftovers(KeyTable(100), aborted, ends)
    scan(keys, found)
    return set(found.contradicted())


def test_successor_is_the_first_later_record_of_the_key() -> None:
    assert successors("abcabca", 0, 2, 4) == {0: 3, 2: 5}
    assert successors("abcd", 1) == {}


def test_aborted_record_supersedes_nothing() -> None:
    aborted = ((PRODUCER_ID, 1, 2),)
    assert successors("aA.xa", 0) == {0: 1}
    assert successors("aA.xa", 0, aborted=aborted) == {0: 4}
    assert contradicted("xaA.x", {0: 4}) == {0}
    assert contradicted("xaA.x", {0: 4}, aborted=((PRODUCER_ID, 2, 3),)) == set()


def test_superseded_record_up_to_the_successor_is_a_contradiction() -> None:
    assert contradicted("xabab", {0: 3}) == {0}
    assert contradicted("xabab", {0: 2}) == set()
    assert contradicted("xabab", {1: 3}) == set()
    assert contradicted("xabab", {1: 4, 0: 2, 3: 4}) == {1}
    assert contradicted("xabab", {}) == set()


def test_the_nearest_of_several_later_records_ends_a_span() -> None:
    spans = Spans([3, 5])
    for offset, successor in ((5, 9), (5, 7), (5, 8), (4, 6)):
        spans.end_at(offset, successor)
    assert list(spans.successors) == [NO_SUCCESSOR, 7]
