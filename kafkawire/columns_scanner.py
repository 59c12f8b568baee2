"""Composition: the loops over records for audits, compiled if possible.

As in `records_scanner`, the fallback without the compiled twin, or with OTTLA_PURE_PYTHON=1, is
`columns_loops`. Only the speed differs (tests/property/kafkawire/test_columns_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.columns_loops import COLUMNS_VERSION, Column, SectionSurvey, SoundBatch, Spans
from kafkawire.key_table_loops import KeyLimitError, Mismatch

if TYPE_CHECKING:
    from kafkawire.columns_loops import RecordColumns, read_plain_batches, survey_section
    from kafkawire.key_hash import hash_key
    from kafkawire.key_table_loops import KeyTable

    HAS_COMPILED_COLUMNS: bool
else:
    try:
        from kafkawire import _columns

        # An editable install keeps its compiled module when the sources change.
        if _columns.COLUMNS_VERSION != COLUMNS_VERSION:
            raise ImportError("the compiled column scanner is of another version")
        from kafkawire._columns import (
            KeyTable,
            RecordColumns,
            hash_key,
            read_plain_batches,
            survey_section,
        )

        HAS_COMPILED_COLUMNS = True
    except ImportError:
        from kafkawire.columns_loops import RecordColumns, read_plain_batches, survey_section
        from kafkawire.key_hash import hash_key
        from kafkawire.key_table_loops import KeyTable

        HAS_COMPILED_COLUMNS = False

__all__ = [
    "HAS_COMPILED_COLUMNS",
    "Column",
    "KeyLimitError",
    "KeyTable",
    "Mismatch",
    "RecordColumns",
    "SectionSurvey",
    "SoundBatch",
    "Spans",
    "hash_key",
    "read_plain_batches",
    "survey_section",
]
