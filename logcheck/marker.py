"""The transaction markers in control batches, and their form (decision).

A marker is a control batch with one record. Its key holds version 2 | type 2, its value version 2 |
coordinator epoch 4 (sizes in bytes). A cleaner may leave a control batch without its record.

Source: ControlRecordType and EndTransactionMarker of Kafka 3.9.
"""

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


class MarkerFault(NamedTuple):
    """A violation of the form of a marker."""

    expected: str
    found: str
    is_newer: bool = False
    """Whether the marker may be of a newer version, which brokers read like the known one."""


def read_marker(batch: SoundBatch) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if it is empty or cannot be read."""
    return check_marker(batch)[0]


def check_marker(batch: SoundBatch) -> tuple[EndTransactionMarker | None, MarkerFault | None]:
    """Return the marker in a control batch as in `read_marker`, and its first fault.

    A cleaner may empty a marker, which is no fault. Brokers read some markers in spite of a fault.
    """
    usual = _read_usual(batch)
    if usual is not None:
        return usual, None
    try:
        marker = read_control_batch(batch.data)
    except CorruptBatchError:
        marker = None
    return marker, _find_fault(batch)


def _read_usual(batch: SoundBatch) -> EndTransactionMarker | None:
    """Return the marker in a control batch that has no fault; None if it must be parsed."""
    if len(batch.section) == _USUAL.size and batch.header.record_count == 1:
        *start, number, length, version, epoch, header_count = _USUAL.unpack(batch.section)
        is_usual = (*start,) == _USUAL_START and (length, version) == _USUAL_VALUE
        if is_usual and header_count == 0 and number in _TYPES:
            return EndTransactionMarker(_CONTROL_TYPES[number], epoch)
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
