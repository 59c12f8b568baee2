"""S1: the attribute bits of a batch fit its producer and the history of the log (decision).

Bits 0-2 are the codec, 3 the timestamp type, 4 transactional, 5 control, 6 delete horizon. The
others are unused in every release of Kafka.
"""

from typing import Final

from kafkawire.records import NO_PRODUCER_ID, BatchHeader
from kafkawire.records_header import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.history import History, Zone

NOTABLE_BITS: Final = ~0b1111
"""The bits that `check_attributes` looks at: all but the codec and the timestamp type."""
TRANSACTION_BITS: Final = (TRANSACTIONAL_BIT, TRANSACTIONAL_BIT | CONTROL_BIT)
"""The notable bits that are right in any batch with a producer."""
_UNUSED_BITS: Final = ~0b111_1111


def check_attributes(
    file: str, position: int, header: BatchHeader, history: History, report: Report
) -> None:
    """Report the attribute bits of one batch that no healthy history explains.

    A broker does not look at unused bits, nor at the transactional bit of a batch without a
    producer. A faulty client may have set them: they are only warnings.
    """
    attributes, find = header.attributes, Finder(Check.BATCHES, report).find
    place = Damage.BAD_ATTRIBUTES, file, position, header.base_offset
    found = f"attributes {attributes & 0xFFFF:#06x}"
    has_producer = header.producer_id != NO_PRODUCER_ID and header.producer_epoch >= 0
    if attributes & _UNUSED_BITS:
        find(*place, "no unused bit", found, Severity.WARNING)
    is_of_quorum = history.is_quorum_log and header.producer_id == NO_PRODUCER_ID
    is_marker = has_producer and header.is_transactional
    if header.is_control and not (is_marker or is_of_quorum):
        find(*place, "a producer and the transactional bit in a control batch", found)
    elif header.is_transactional and not has_producer:
        find(*place, "a producer of the transactional batch", found, Severity.WARNING)
    if attributes & DELETE_HORIZON_BIT and history.zone(header.base_offset) is Zone.UNCLEANED:
        find(*place, "no delete horizon, because the topic is not compacted", found)
