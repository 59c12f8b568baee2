"""Damage to a sound log whose lengths, checksums and indexes are right again afterwards.

Each function changes one thing in the middle of the log: in a part that a cleaner has reached if
there is one, else in a closed segment. It returns False if it has
found nothing to change.
"""

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Final

from kafkawire.compression import Codec
from tests.analytics.histories.edited_log import (
    APPEND_TIME,
    CONTROL,
    HORIZON,
    TRANSACTIONAL,
    UNUSED,
    Batch,
    EditedLog,
    Producer,
    Record,
    Transaction,
)

Damage = Callable[[EditedLog], object]
HOUR_MS: Final = 3_600_000
YEAR_MS: Final = 365 * 24 * HOUR_MS
_HEADER: Final = [(b"unheard-of", b"x")]


def part(log: EditedLog) -> list[Batch]:
    """Return the batches of the part to damage, in the middle of it first."""
    end = log.checkpoint("cleaner_point") or log.active
    batches = [each for each in log.batches if each.last < end]
    middle = len(batches) // 2
    return [*batches[middle:], *batches[:middle]]


def batch_with(log: EditedLog, condition: Callable[[Batch], object]) -> Batch | None:
    return next((each for each in part(log) if condition(each)), None)


def data(each: Batch) -> bool:
    return not each.is_control and bool(each.records)


def marker(each: Batch) -> bool:
    return each.is_control and bool(each.records)


def idempotent(each: Batch) -> bool:
    return produced(each) and not each.is_transactional


def produced(each: Batch) -> bool:
    return data(each) and each.producer_id >= 0


def transactional(each: Batch) -> bool:
    return data(each) and each.is_transactional


def plain(each: Batch) -> bool:
    return data(each) and each.producer_id < 0


def whole(each: Batch) -> bool:
    return data(each) and len(each.records) > each.delta


def several(each: Batch) -> bool:
    return data(each) and len(each.records) > 1


def of_kind(number: int) -> Callable[[Batch], bool]:
    return lambda each: marker(each) and (each.records[0].key or b"")[3] == number


def on_batch(condition: Callable[[Batch], object], change: Callable[[Batch], object]) -> Damage:
    """Return the damage that `change` does to a batch with `condition`."""

    def damage(log: EditedLog) -> bool:
        batch = batch_with(log, condition)
        if batch is None or change(batch) is False:
            return False
        log.save()
        return True

    return damage


def on_record(condition: Callable[[Record], object], **fields: object) -> Damage:
    """Return the damage of setting fields of a data record with `condition`."""

    def change(batch: Batch) -> None:
        record = next(each for each in batch.records if condition(each))
        for name, value in fields.items():
            setattr(record, name, value)

    return on_batch(lambda each: data(each) and any(map(condition, each.records)), change)


def on_field(condition: Callable[[Batch], object], **fields: object) -> Damage:
    def change(batch: Batch) -> None:
        for name, value in fields.items():
            setattr(batch, name, value(batch) if callable(value) else value)

    return on_batch(condition, change)


def flip(bits: int) -> Callable[[Batch], None]:
    def change(batch: Batch) -> None:
        batch.attributes ^= bits

    return change


def flipped(condition: Callable[[Batch], object], bits: int) -> Damage:
    return on_batch(condition, flip(bits))


def horizon_moved(by_ms: int) -> Callable[[Batch], None]:
    def change(batch: Batch) -> None:
        batch.base_ms += by_ms

    return change


def on_earlier_horizon(change: Callable[[Batch], object]) -> Damage:
    """Return the damage to a batch of tombstones whose horizon is not the last one of the log."""

    def damage(log: EditedLog) -> bool:
        with_horizon = [each for each in part(log) if data(each) and each.attributes & HORIZON]
        last = max((each.base for each in with_horizon), default=0)
        for batch in with_horizon:
            if batch.base < last and any(map(is_tombstone, batch.records)):
                change(batch)
                log.save()
                return True
        return False

    return damage


def last_records(log: EditedLog) -> dict[bytes | None, tuple[Batch, Record]]:
    """Return the last record of each key, with its batch."""
    return {
        record.key: (batch, record)
        for batch in log.batches
        if data(batch)
        for record in batch.records
    }


def on_needed_record(
    change: Callable[[Batch, Record], object],
    batches: Callable[[Batch], object] = data,
    records: Callable[[Record], object] = lambda _: True,
) -> Damage:
    """Return the damage to a batch with a record, in a cleaned log one that no cleaner may remove.

    That is the last record of a key, if it is a value or was written less than 900 ms before the
    end of the log. Without any, it is another one.
    """

    def damage(log: EditedLog) -> bool:
        is_cleaned = log.checkpoint("cleaner_point") is not None
        young_ms = max(batch.newest_ms for batch in log.batches) - 900
        last = {
            id(record)
            for _, record in last_records(log).values()
            if has_value(record) or record.timestamp_ms > young_ms
        }
        owners = [
            (batch, record)
            for batch in filter(batches, part(log))
            for record in filter(records, batch.records)
        ]
        if not owners:
            return False
        needed = (each for each in owners if not is_cleaned or id(each[1]) in last)
        change(*next(needed, owners[0]))
        log.save()
        return True

    return damage


def needed_marker_emptied(log: EditedLog) -> bool:
    """Empty a marker whose transaction has records."""
    batches = log.batches

    def has_records(batch: Batch) -> bool:
        own = [each for each in batches if each.producer_id == batch.producer_id]
        before = own[own.index(batch) - 1] if own.index(batch) else batch
        return data(before) and before.is_transactional

    return on_batch(lambda each: marker(each) and has_records(each), emptied)(log) is True


def has_value(record: Record) -> bool:
    return bool(record.value)


def is_tombstone(record: Record) -> bool:
    return record.value is None


def without_delta_gap(log: EditedLog) -> bool:
    """Drop a batch, and let the delta of the one before cover its offsets."""
    firsts = [batches[0] for batches in log.segments.values() if batches]
    batch = batch_with(log, lambda each: data(each) and each not in firsts)
    if batch is None:
        return False
    segment = log.segment_of(batch)
    at = segment.index(batch)
    segment[at - 1].delta = batch.last - segment[at - 1].base
    del segment[at]
    log.save()
    return True


def swap(name: str) -> Damage:
    """Exchange a field of the first and the last record of a batch."""

    def differs(batch: Batch) -> bool:
        return several(batch) and getattr(batch.records[0], name) != getattr(
            batch.records[-1], name
        )

    def change(batch: Batch) -> None:
        first, last = batch.records[0], batch.records[-1]
        ours, theirs = getattr(first, name), getattr(last, name)
        setattr(first, name, theirs)
        setattr(last, name, ours)

    return on_batch(differs, change)


def contents_rotated(batch: Batch) -> None:
    contents = [(each.key, each.value) for each in batch.records]
    for record, content in zip(batch.records, [*contents[1:], contents[0]], strict=True):
        record.key, record.value = content


def base_shifted(batch: Batch) -> None:
    batch.base_ms -= 1_000
    for record in batch.records:
        record.timestamp_ms -= 1_000


def recoded(batch: Batch) -> None:
    codec = Codec.LZ4 if batch.attributes & 7 != Codec.LZ4 else Codec.GZIP
    batch.attributes = batch.attributes & ~7 | codec


def marker_key(number: int) -> Callable[[Batch], None]:
    def change(batch: Batch) -> None:
        batch.records[0].key = bytes([0, 0, 0, number])

    return change


def coordinator_epoch(batch: Batch) -> None:
    batch.records[0].value = bytes([0, 0, 0, 0, 0, 99])


def emptied(batch: Batch) -> None:
    batch.records = []


def abort_to_commit_with_index(log: EditedLog) -> bool:
    batch = batch_with(log, of_kind(0))
    if batch is None:
        return False
    marker_key(1)(batch)
    for entries in log.transactions.values():
        entries[:] = [each for each in entries if each.last != batch.base]
    log.save()
    return True


def commit_to_abort_with_index(log: EditedLog) -> bool:
    batch = batch_with(log, of_kind(1))
    if batch is None:
        return False
    own = [
        each
        for each in log.batches
        if each.producer_id == batch.producer_id and data(each) and each.base < batch.base
    ]
    if not own:
        return False
    marker_key(0)(batch)
    base = max(each for each in log.segments if each <= batch.base)
    entry = Transaction(0, batch.producer_id, own[-1].base, batch.base, batch.base + 1)
    entries = log.transactions.setdefault(base, [])
    entries.append(entry)
    entries.sort(key=lambda each: each.last)
    log.save()
    return True


def appended_twice(log: EditedLog) -> bool:
    batch = batch_with(log, idempotent)
    if batch is None:
        return False
    again, shift = deepcopy(batch), log.end - batch.base
    again.base += shift
    again.epoch = log.batches[-1].epoch
    for record in again.records:
        record.offset += shift
    log.segments[log.active].append(again)
    for name in ("high_watermark", "recovery_point"):
        log.write_checkpoint(name, log.end)
    log.save()
    return True


def no_epochs(log: EditedLog) -> bool:
    for each in log.batches:
        each.epoch = 0
    log.save()
    return len(log.epochs()) > 1


def epochs(change: Callable[[list[tuple[int, int]], int], list[tuple[int, int]]]) -> Damage:
    """Return the damage of writing other entries; `change` gets the entries and the log end."""

    def damage(log: EditedLog) -> bool:
        before = log.epochs()
        after = change(before, log.end)
        log.write_epochs(after)
        return after != before

    return damage


def file_changed(suffix: str, change: Callable[[bytes], bytes]) -> Damage:
    """Return the damage to a file of the first segment for which it has an effect."""

    def damage(log: EditedLog) -> bool:
        for path in log.files(suffix)[:-1]:
            before = path.read_bytes()
            if (after := change(before)) != before:
                path.write_bytes(after)
                return True
        return False

    return damage


def thinned(size: int) -> Callable[[bytes], bytes]:
    """Keep every other entry, and always the last one."""

    def change(content: bytes) -> bytes:
        entries = [content[at : at + size] for at in range(0, len(content), size)]
        return b"".join([*entries[:-1:2], *entries[-1:]])

    return change


def index_per_append(log: EditedLog) -> bool:
    """Let an entry name the last offset of a later batch, as appends of several batches do."""
    for base, batches in list(log.segments.items())[:-1]:
        path = log.file(base, "index")
        content = bytearray(path.read_bytes())
        named = int.from_bytes(content[:4], "big") + base
        later = [each.last for each in batches if each.last > named]
        following = int.from_bytes(content[8:12], "big") + base if len(content) > 8 else log.end
        if content and later and later[0] < following:
            content[:4] = (later[0] - base).to_bytes(4, "big")
            path.write_bytes(content)
            return True
    return False


def indexes_swapped(log: EditedLog) -> bool:
    paths = [each for each in log.files("index")[:-1] if each.stat().st_size]
    if len(paths) < 2:
        return False
    one, two = paths[0].read_bytes(), paths[1].read_bytes()
    paths[0].write_bytes(two)
    paths[1].write_bytes(one)
    return one != two


def aborted(log: EditedLog) -> Iterator[tuple[int, list[Transaction]]]:
    """Yield the transaction indexes of the part to damage that have entries."""
    end = log.checkpoint("cleaner_point") or log.active
    for base, entries in sorted(log.transactions.items()):
        if entries and base < end:
            yield base, entries


def on_transactions(change: Callable[[list[Transaction]], object]) -> Damage:
    def damage(log: EditedLog) -> bool:
        for _, entries in aborted(log):
            change(entries)
            log.save()
            return True
        return False

    return damage


def on_transaction(**fields: int) -> Damage:
    def change(entries: list[Transaction]) -> None:
        for name, value in fields.items():
            setattr(entries[0], name, value)

    return on_transactions(change)


def transaction_begun_earlier(log: EditedLog) -> bool:
    for _, entries in aborted(log):
        for each in entries:
            if any(batch.base < each.first <= batch.last + 1 for batch in log.batches):
                each.first -= 1
                log.save()
                return True
    return False


def txnindex_deleted(log: EditedLog) -> bool:
    for base, _ in aborted(log):
        log.file(base, "txnindex").unlink()
        return True
    return False


def transaction_elsewhere(log: EditedLog) -> bool:
    for base, entries in aborted(log):
        others = [each for each in log.segments if each != base]
        if others:
            log.transactions.setdefault(others[0], []).append(entries.pop())
            log.save()
            return True
    return False


def transaction_invented(log: EditedLog) -> bool:
    batch = batch_with(log, data)
    assert batch is not None
    base = max(each for each in log.segments if each <= batch.base)
    entry = Transaction(0, 999, batch.base, batch.last, batch.last + 1)
    log.transactions.setdefault(base, []).append(entry)
    log.transactions[base].sort(key=lambda each: each.last)
    log.save()
    return True


def on_producers(change: Callable[[list[Producer]], object]) -> Damage:
    """Return the damage to the newest snapshot, the one of a clean stop."""

    def damage(log: EditedLog) -> bool:
        producers = log.producers[max(log.producers)]
        if not producers:
            return False
        change(producers)
        log.save()
        return True

    return damage


def on_producer(
    wrote: Callable[[Batch], object] = produced, **changes: Callable[[Producer], int]
) -> Damage:
    """Return the damage to the entry of a producer that `wrote` behind the last missing record."""

    def damage(log: EditedLog) -> bool:
        end, writers = log.end, set[int]()
        for batch in reversed(log.batches):
            if batch.last + 1 != end or len(batch.records) <= batch.delta:
                break
            end = batch.base
            if wrote(batch):
                writers.add(batch.producer_id)
        for producer in log.producers[max(log.producers)]:
            before = vars(producer).copy()
            if producer.producer_id in writers:
                for name, value in changes.items():
                    setattr(producer, name, value(producer))
                if vars(producer) != before:
                    log.save()
                    return True
        return False

    return damage


def snapshots_gone(log: EditedLog) -> bool:
    for path in log.files("snapshot"):
        path.unlink()
    return True


def closed(log: EditedLog) -> list[int]:
    return sorted(log.segments)[:-1]


def segments_removed(choice: Callable[[list[int]], list[int]], least: int = 1) -> Damage:
    def damage(log: EditedLog) -> bool:
        if len(closed(log)) < least:
            return False
        for base in choice(closed(log)):
            log.remove_segment(base)
        return True

    return damage


def middle_removed(log: EditedLog) -> bool:
    middle = [base for base in closed(log)[1:-1] if any(map(data, log.segments[base]))]
    if not middle:
        return False
    log.remove_segment(middle[0])
    return True


def active_gone(log: EditedLog) -> None:
    log.remove_segment(log.active)


def tail_cut(log: EditedLog, *, with_checkpoints: bool = False) -> None:
    del log.segments[log.active][-1]
    if with_checkpoints:
        for name in ("high_watermark", "recovery_point"):
            log.write_checkpoint(name, log.end)
        for path in log.files("snapshot"):
            if int(path.stem) > log.end:
                log.producers.pop(int(path.stem))
                path.unlink()
    log.save()


def logs_emptied(log: EditedLog) -> None:
    for suffix in ("log", "index", "timeindex"):
        for path in log.files(suffix):
            path.write_bytes(b"")


def segment_files_gone(log: EditedLog) -> None:
    for base in list(log.segments):
        log.remove_segment(base)


def checkpoints_gone(log: EditedLog) -> None:
    for path in log.root.glob("*-checkpoint"):
        path.unlink()


def last_of_key_gone(log: EditedLog) -> bool:
    """Remove the newest record of a key from the log, as if it had never been written."""
    end = log.checkpoint("cleaner_point") or log.active
    # Below the part's end, so that nothing newer supersedes the key.
    for batch, record in last_records(log).values():
        if batch.last < end and record.value is not None:
            batch.records.remove(record)
            log.save()
            return True
    return False


def older_back(log: EditedLog) -> bool:
    """Put an older record of a key into a place that its batch has left free."""
    later = [(batch, record) for batch in part(log) if data(batch) for record in batch.records]
    for batch in part(log):
        taken = {record.offset for record in batch.records}
        free = [each for each in range(batch.base, batch.last + 1) if each not in taken]
        for newer, record in later:
            if data(batch) and free and record.value and newer.base > batch.last:
                old = deepcopy(record)
                old.offset, old.timestamp_ms = free[0], batch.records[0].timestamp_ms
                batch.records.append(old)
                batch.records.sort(key=lambda each: each.offset)
                log.save()
                return True
    return False


def checkpoint(name: str, value: Callable[[EditedLog], int]) -> Damage:
    def damage(log: EditedLog) -> bool:
        if log.checkpoint(name) in (None, value(log)):
            return False
        log.write_checkpoint(name, value(log))
        return True

    return damage


def never_cleaned(log: EditedLog) -> bool:
    if log.checkpoint("cleaner_point") is not None:
        return False
    log.write_checkpoint("cleaner_point", log.active)
    return True


def metadata(text: str) -> Damage:
    return lambda log: (log.directory / "partition.metadata").write_text(text)


RECORDS: Final[dict[str, Damage]] = {
    "a record dropped, delta kept": on_needed_record(
        lambda each, record: each.records.remove(record), several
    ),
    "all records of a batch dropped": on_needed_record(lambda each, _: emptied(each)),
    "a batch swallowed by the delta of the one before": without_delta_gap,
    "a value changed": on_record(has_value, value=b"another"),
    "a value emptied": on_record(has_value, value=b""),
    "a value turned into a tombstone": on_record(has_value, value=None),
    "a tombstone turned into a value": on_record(is_tombstone, value=b"another"),
    "a tombstone turned into an empty value": on_record(is_tombstone, value=b""),
    "a key changed": on_record(has_value, key=b"unheard-of"),
    "a key removed": on_record(has_value, key=None),
    "a key emptied": on_record(lambda each: bool(each.key) and each.value, key=b""),
    "a header added": on_record(has_value, headers=_HEADER),
    "a header added to a tombstone": on_record(is_tombstone, headers=_HEADER),
    "an attribute byte of a record": on_record(has_value, attributes=1),
    "two values swapped": swap("value"),
    "two keys swapped": swap("key"),
    "contents in another order": on_batch(several, contents_rotated),
    "offsets out of order": swap("offset"),
    "the last record of a key removed": last_of_key_gone,
    "an older record of a key put back": older_back,
}
TIMES: Final[dict[str, Damage]] = {
    "two timestamps swapped": swap("timestamp_ms"),
    "a timestamp a day earlier": on_batch(
        several,
        lambda each: setattr(
            each.records[0], "timestamp_ms", each.records[0].timestamp_ms - 24 * HOUR_MS
        ),
    ),
    "the base timestamp a second earlier": on_batch(
        lambda each: data(each) and not each.attributes & HORIZON, base_shifted
    ),
    "the maximum timestamp ten years later": on_field(
        data, newest_ms=lambda batch: batch.newest_ms + 10 * YEAR_MS
    ),
    "the maximum timestamp a millisecond later": on_field(
        data, newest_ms=lambda batch: batch.newest_ms + 1
    ),
    "the maximum timestamp a day earlier": on_field(
        data, newest_ms=lambda batch: batch.newest_ms - 24 * HOUR_MS
    ),
}
ATTRIBUTES: Final[dict[str, Damage]] = {
    "another codec": on_batch(data, recoded),
    "the LogAppendTime bit flipped": flipped(data, APPEND_TIME),
    "an unused bit set": flipped(data, UNUSED),
    "the transactional bit set on a plain batch": flipped(plain, TRANSACTIONAL),
    "the transactional bit set on an idempotent batch": flipped(idempotent, TRANSACTIONAL),
    "the transactional bit cleared": flipped(transactional, TRANSACTIONAL),
    "the control bit set on data": flipped(data, CONTROL),
    "the control bit cleared on a marker": flipped(marker, CONTROL),
    "the horizon bit set": flipped(lambda each: whole(each) and not each.attributes & 64, HORIZON),
    "the horizon bit cleared": on_earlier_horizon(flip(HORIZON)),
    "a horizon ten hours earlier": on_earlier_horizon(horizon_moved(-10 * HOUR_MS)),
    "a horizon ten years later": on_field(
        lambda each: data(each) and each.attributes & 64,
        base_ms=lambda batch: batch.base_ms + 10 * YEAR_MS,
    ),
    "a horizon a millisecond later": on_field(
        lambda each: data(each) and each.attributes & 64, base_ms=lambda batch: batch.base_ms + 1
    ),
    "a tombstone removed before its horizon": on_needed_record(
        lambda each, record: each.records.remove(record), records=is_tombstone
    ),
}
MARKERS: Final[dict[str, Damage]] = {
    "a commit turned into an abort": on_batch(of_kind(1), marker_key(0)),
    "an abort turned into a commit": on_batch(of_kind(0), marker_key(1)),
    "a commit turned into an abort, index adapted": commit_to_abort_with_index,
    "an abort turned into a commit, index adapted": abort_to_commit_with_index,
    "an unknown type of marker": on_batch(marker, marker_key(9)),
    "the coordinator epoch of a marker": on_batch(marker, coordinator_epoch),
    "a marker emptied": needed_marker_emptied,
    "a marker of another producer": on_field(marker, producer_id=999),
    "a lower producer epoch of a marker": on_field(
        lambda each: marker(each) and each.producer_epoch > 0, producer_epoch=0
    ),
}
PRODUCERS: Final[dict[str, Damage]] = {
    "another producer of an idempotent batch": on_field(idempotent, producer_id=999),
    "no producer of an idempotent batch": on_field(
        idempotent, producer_id=-1, producer_epoch=-1, sequence=-1
    ),
    "another producer of a transactional batch": on_field(transactional, producer_id=999),
    "the producer epoch back": on_field(
        lambda each: idempotent(each) and each.producer_epoch > 0,
        producer_epoch=lambda batch: batch.producer_epoch - 1,
    ),
    "the producer epoch ahead": on_field(
        idempotent, producer_epoch=lambda batch: batch.producer_epoch + 5
    ),
    "a hole in the sequence": on_field(idempotent, sequence=lambda batch: batch.sequence + 7),
    "a sequence used twice": on_field(
        lambda each: idempotent(each) and each.sequence > 0,
        sequence=lambda batch: max(0, batch.sequence - 1),
    ),
    "a batch appended twice": appended_twice,
}
EPOCHS: Final[dict[str, Damage]] = {
    "the leader epoch of a batch raised": on_field(data, epoch=lambda batch: batch.epoch + 1),
    "the leader epoch of a batch lowered": on_field(
        lambda each: data(each) and each.epoch > 0, epoch=lambda batch: batch.epoch - 1
    ),
    "all leader epochs 0": no_epochs,
    "leader epochs: an entry in the middle gone": epochs(lambda each, _: [each[0], *each[2:]]),
    "leader epochs: the first entry gone": epochs(lambda each, _: each[1:]),
    "leader epochs: the last entry gone": epochs(lambda each, _: each[:-1]),
    "leader epochs: no entries": epochs(lambda _each, _: []),
    "leader epochs: another number": epochs(
        lambda each, _: [*each[:-1], (each[-1][0] + 1, each[-1][1])]
    ),
    "leader epochs: one too many at the end": epochs(
        lambda each, end: [*each, (each[-1][0] + 1, end)]
    ),
    "leader epochs: one too many before the end": epochs(
        lambda each, end: [*each, (each[-1][0] + 1, end - 1)]
    ),
    "leader epochs: no file": lambda log: (log.directory / "leader-epoch-checkpoint").unlink(),
}
INDEXES: Final[dict[str, Damage]] = {
    "an offset index emptied": file_changed("index", lambda _: b""),
    "an offset index thinned": file_changed("index", thinned(8)),
    "an entry of a whole append in an offset index": index_per_append,
    "two offset indexes swapped": indexes_swapped,
    "a time index emptied": file_changed("timeindex", lambda _: b""),
    "a time index thinned": file_changed("timeindex", thinned(12)),
}
TRANSACTIONS: Final[dict[str, Damage]] = {
    "a transaction index deleted": txnindex_deleted,
    "an entry of a transaction index dropped": on_transactions(lambda each: each.pop(0)),
    "a transaction index entry with an earlier first offset": transaction_begun_earlier,
    "a transaction index entry with a later first offset": on_transactions(
        lambda each: setattr(each[0], "first", each[0].first + 1)
    ),
    "a transaction index entry with a higher stable offset": on_transaction(stable=2**40),
    "a transaction index entry with the stable offset 0": on_transaction(stable=0),
    "a transaction index entry twice": on_transactions(
        lambda each: each.insert(0, deepcopy(each[0]))
    ),
    "a transaction index entry of another producer": on_transaction(producer_id=999),
    "a transaction index entry in another segment": transaction_elsewhere,
    "a transaction that never was": transaction_invented,
}
SNAPSHOTS: Final[dict[str, Damage]] = {
    "snapshot: a lower epoch": on_producer(epoch=lambda each: each.epoch - 1),
    "snapshot: a higher epoch": on_producer(epoch=lambda each: each.epoch + 1),
    "snapshot: another sequence": on_producer(sequence=lambda each: each.sequence + 1),
    "snapshot: an older offset": on_producer(offset=lambda each: each.offset - 1),
    "snapshot: no offset": on_producer(offset=lambda _: -1),
    "snapshot: another delta": on_producer(delta=lambda each: each.delta + 1),
    "snapshot: another timestamp": on_producer(timestamp_ms=lambda each: each.timestamp_ms + 1),
    "snapshot: another coordinator epoch": on_producer(
        marker, coordinator_epoch=lambda each: each.coordinator_epoch + 1
    ),
    "snapshot: an open transaction that never was": on_producer(
        marker, transaction_first=lambda each: max(each.offset, 0)
    ),
    "snapshot: a producer dropped": on_producers(lambda each: each.pop()),
    "snapshot: all producers dropped": on_producers(lambda each: each.clear()),
    "snapshot: a producer invented": on_producers(
        lambda each: each.append(Producer(999, 0, 4, each[0].offset, 4, 0, -1, -1))
    ),
    "all snapshots gone": snapshots_gone,
}
FILES: Final[dict[str, Damage]] = {
    "the first segment removed": segments_removed(lambda each: each[:1]),
    "a segment in the middle removed": middle_removed,
    "the last closed segment removed": segments_removed(lambda each: each[-1:], least=2),
    "all closed segments removed": segments_removed(lambda each: each),
    "the active segment removed": active_gone,
    "the last batch removed": tail_cut,
    "the last batch removed, checkpoints adapted": lambda log: tail_cut(log, with_checkpoints=True),
    "all segments emptied": logs_emptied,
    "every segment file removed": segment_files_gone,
    "the partition's directory removed": lambda log: shutil.rmtree(log.directory),
    "the partition's directory renamed": lambda log: log.directory.rename(log.root / "orders-1"),
    "all offset checkpoints removed": checkpoints_gone,
    "a high watermark of 0": checkpoint("high_watermark", lambda _: 0),
    "a high watermark beyond the end": checkpoint("high_watermark", lambda log: log.end + 9),
    "a recovery point beyond the end": checkpoint("recovery_point", lambda log: log.end + 9),
    "a log start inside the log": lambda log: log.write_checkpoint("log_start", log.end // 2),
    "a log start beyond the end": lambda log: log.write_checkpoint("log_start", log.end + 9),
    "a cleaner's point beyond the end": checkpoint("cleaner_point", lambda log: log.end + 9),
    "a cleaner's point in the active segment": checkpoint(
        "cleaner_point", lambda log: log.active + 1
    ),
    "a cleaner's point in a log never cleaned": never_cleaned,
    "a cleaner's point that is too low": checkpoint("cleaner_point", lambda _: 1),
    "another topic id": metadata("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"),
    "garbage in partition.metadata": metadata("garbage"),
}
DAMAGES: Final = {
    **RECORDS,
    **TIMES,
    **ATTRIBUTES,
    **MARKERS,
    **PRODUCERS,
    **EPOCHS,
    **INDEXES,
    **TRANSACTIONS,
    **SNAPSHOTS,
    **FILES,
}
