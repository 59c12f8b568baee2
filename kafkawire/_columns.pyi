"""Types of the compiled twin, equal to those of the plain loops."""

from kafkawire.columns_loops import RecordColumns as RecordColumns
from kafkawire.columns_loops import read_plain_batches as read_plain_batches
from kafkawire.columns_loops import survey_section as survey_section
from kafkawire.key_hash import hash_key as hash_key
from kafkawire.key_table_loops import KeyTable as KeyTable

COLUMNS_VERSION: int
