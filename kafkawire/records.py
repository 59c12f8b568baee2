"""Record batches of format v2: the single import to read, write and check them (composition).

records_header    the 61 bytes at a batch's head, checksum, stamping in place
records_read      records out of a batch          records_build    a batch out of records
records_validate  a broker's checks, and the codes of its refusals (records_refusal)
records_control   the markers that end transactions
records_loops     the loops over records in plain Python; `native` prefers compiled ones
"""

from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec
from kafkawire.native import IS_COMPILED, assign_offsets
from kafkawire.records_build import BatchBuilder, recompress
from kafkawire.records_control import (
    ControlType,
    EndTransactionMarker,
    build_control_batch,
    read_control_batch,
)
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    BytesLike,
    TimestampType,
    batch_size_at,
    crc_matches,
    iterate_batches,
    read_header,
    set_log_append_time,
    write_header,
)
from kafkawire.records_loops import Headers, HeadersLike
from kafkawire.records_read import Record, read_records, read_records_as, record_section
from kafkawire.records_refusal import RecordError, RecordsRejectedError
from kafkawire.records_validate import (
    Budget,
    BudgetSpentError,
    Validate,
    validate_produced,
    validator,
)
from kafkawire.sentinels import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

__all__ = [
    "BATCH_HEADER_BYTES",
    "IS_COMPILED",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "MAX_DECOMPRESSED_BYTES",
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchBuilder",
    "BatchHeader",
    "Budget",
    "BudgetSpentError",
    "BytesLike",
    "Codec",
    "ControlType",
    "EndTransactionMarker",
    "Headers",
    "HeadersLike",
    "Record",
    "RecordError",
    "RecordsRejectedError",
    "TimestampType",
    "Validate",
    "assign_offsets",
    "batch_size_at",
    "build_control_batch",
    "crc_matches",
    "iterate_batches",
    "read_control_batch",
    "read_header",
    "read_records",
    "read_records_as",
    "recompress",
    "record_section",
    "set_log_append_time",
    "validate_produced",
    "validator",
    "write_header",
]
