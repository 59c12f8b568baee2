"""The transaction markers in control batches, and their form (decision).

A marker is a control batch with one record. Its key holds version 2 | type 2, its value version 2 |
coordinator epoch 4 (sizes in bytes). A cleaner may leave a control batch without its record.

Source: ControlRecordType and EndTransactionMarker of Kafka 3.9.
"""

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.errors import CorruptBatchError
from kafkawire.records import ControlType, EndTransactionMarker, read_control_batch, read_records

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
_TYPES: Final = tuple(int(each) for each in ControlType)

# The record of a marker as brokers write it. Parsing it as any record costs ten times as much
# (`python -m benchmarks audit`): length 16, no attributes or deltas | key length 4 | version, type
# | value length 6 | version, coordinator epoch | no headers.
_USUAL: Final = Struct(">IBhhBhiB")
_USUAL_START: Final = 0x20_00_00_00, 8, _VERSION
_USUAL_VALUE: Final = 12, _VERSION
_CONTROL_TYPES: Final = tuple(ControlType)
_MAX_KNOWN: Final = 256
"""Number of different markers in memory: most markers of a log are equal."""


class MarkerFault(NamedTuple):
    """A violation of the form of a marker."""

    expected: str
    found: str
    is_newer: bool = False
    """Whether the marker may be of a newer version, which brokers read like the known one."""


class MarkerReading(NamedTuple):
    """The marker in a control batch, and its first fault."""

    marker: EndTransactionMarker | None = None
    """None if the batch is empty or cannot be read."""
    fault: MarkerFault | None = None


NOT_READ: Final = MarkerReading()
"""The reading of a batch that is no control batch."""


def check_marker(batch: SoundBatch) -> MarkerReading:
    """Return the marker in a control batch, and its first fault.

    A cleaner may empty a marker, which is no fault. Brokers read some markers in spite of a fault.
    """
    section = batch.section
    if len(section) == _USUAL.size and batch.header.record_count == 1:
        usual = _read_usual(bytes(section))
        if usual is not None:
            return usual
    try:
        marker = read_control_batch(batch.data)
    except CorruptBatchError:
        marker = None
    return MarkerReading(marker, _find_fault(batch))


@lru_cache(_MAX_KNOWN)
def _read_usual(section: bytes) -> MarkerReading | None:
    """Return the reading of a marker without any fault; None if it must be parsed."""
    *start, number, length, version, epoch, header_count = _USUAL.unpack(section)
    is_usual = (*start,) == _USUAL_START and (length, version) == _USUAL_VALUE
    if is_usual and header_count == 0 and number in _TYPES:
        return MarkerReading(EndTransactionMarker(_CONTROL_TYPES[number], epoch))
    return None


def _find_fault(batch: SoundBatch) -> MarkerFault | None:
    count = batch.header.record_count
    if count == 0:
        return None
    if count > 1:
        return MarkerFault("one record in a control batch", f"{count} records")
    try:
        (record,) = read_records(batch.data)
    except CorruptBatchError as error:
        return MarkerFault("a marker", str(error))
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size:
        return MarkerFault(f"a key of {_KEY.size} bytes", f"{len(key)} bytes")
    version, number = _KEY.unpack_from(key)
    if version < _VERSION:
        return MarkerFault(f"version {_VERSION} of the key", f"version {version}")
    if number not in _TYPES:
        return MarkerFault("an abort (0) or a commit (1)", f"a control record of type {number}")
    if len(value) < _VALUE.size:
        return MarkerFault(f"a value of {_VALUE.size} bytes", f"{len(value)} bytes")
    value_version, _ = _VALUE.unpack_from(value)
    if value_version < _VERSION:
        return MarkerFault(f"version {_VERSION} of the value", f"version {value_version}")
    is_longer = len(key) > _KEY.size or len(value) > _VALUE.size
    if is_longer or version > _VERSION or value_version > _VERSION:
        expected = f"version {_VERSION}, {_KEY.size} and {_VALUE.size} bytes"
        found = f"versions {version} and {value_version}, {len(key)} and {len(value)} bytes"
        return MarkerFault(expected, found, is_newer=True)
    return None
