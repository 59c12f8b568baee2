"""Digests of long logs differ only where their batches do."""

from kafkawire.columns_loops import SectionSurvey, SoundBatch
from kafkawire.records import BatchHeader
from logcheck.batch_digest import BatchDigest, find_differences
from tests.unit.logcheck.partition_bytes import build_batch, header_of

COUNT = 5_000
NOTHING = memoryview(b"")
HEADER = header_of(build_batch(0, count=1))


def sound(header: BatchHeader) -> SoundBatch:
    survey = SectionSurvey(-1, -1, 0, 0)
    return SoundBatch("f", header.base_offset, header, NOTHING, NOTHING, survey)


def digest_of(changed: dict[int, int], gone: frozenset[int] = frozenset()) -> BatchDigest:
    """Return a digest of batches with one record, some with another checksum."""
    digest = BatchDigest(0)
    digest.on_run(
        [
            sound(HEADER._replace(base_offset=offset, crc=changed.get(offset, 1)))
            for offset in range(COUNT)
            if offset not in gone
        ]
    )
    return digest


def test_differences_between_long_equal_runs_are_found() -> None:
    expected = digest_of({}, frozenset({2_047, 4_999}))
    found = digest_of({0: 7, 1_023: 7, 1_024: 7, 3_000: 7}, frozenset({10, 4_100}))
    differences = list(find_differences(expected, found, 0, COUNT))
    offsets = [0, 10, 1_023, 1_024, 2_047, 3_000, 4_100, 4_999]
    assert [each.offset for each in differences] == offsets
    assert [each.offset for each in differences if each.before is None] == [2_047, 4_999]
    assert [each.offset for each in differences if each.after is None] == [10, 4_100]
    assert list(find_differences(expected, expected, 0, COUNT)) == []


def test_only_batches_in_the_compared_range_count() -> None:
    expected, found = digest_of({}), digest_of({100: 7, 2_000: 7, 4_000: 7})
    differences = find_differences(expected, found, 101, 4_000)
    assert [each.offset for each in differences] == [2_000]
