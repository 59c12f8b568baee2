"""Types of the compiled twin, equal to those of the plain loops."""

from kafkawire.records_loops import RecordBuffer as RecordBuffer
from kafkawire.records_loops import assign_offsets as assign_offsets
from kafkawire.records_loops import read_plain_batch as read_plain_batch
from kafkawire.records_loops import read_rows as read_rows
from kafkawire.records_loops import survey_records as survey_records

INTERFACE_VERSION: int
