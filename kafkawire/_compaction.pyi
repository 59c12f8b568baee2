"""Types of the compiled twin, equal to those of the plain loops."""

from kafkawire.compaction_loops import OffsetMap as OffsetMap
from kafkawire.compaction_loops import choose_records as choose_records
from kafkawire.compaction_loops import index_keys as index_keys
from kafkawire.compaction_loops import rewrite_records as rewrite_records

BYTES_PER_SLOT: int
INTERFACE_VERSION: int
