"""Composition: the loops over records, compiled if possible.

The compiled twin is built at install time if a C compiler is available. The fallback without it, or
with the environment variable OTTLA_PURE_PYTHON=1, is `records_loops`. Only the speed differs
(tests/property/kafkawire/test_records_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.records_loops import INTERFACE_VERSION, BytesLike, Headers, HeadersLike, Row, Survey

if TYPE_CHECKING:
    from kafkawire.records_loops import (
        RecordBuffer,
        assign_offsets,
        read_plain_batch,
        read_rows,
        survey_records,
    )

    HAS_COMPILED_SCANNER: bool
else:
    try:
        from kafkawire import _records

        # An editable install keeps its compiled module when the sources change.
        if _records.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled record scanner is of another version")
        from kafkawire._records import (
            RecordBuffer,
            assign_offsets,
            read_plain_batch,
            read_rows,
            survey_records,
        )

        HAS_COMPILED_SCANNER = True
    except ImportError:
        from kafkawire.records_loops import (
            RecordBuffer,
            assign_offsets,
            read_plain_batch,
            read_rows,
            survey_records,
        )

        HAS_COMPILED_SCANNER = False

__all__ = [
    "HAS_COMPILED_SCANNER",
    "BytesLike",
    "Headers",
    "HeadersLike",
    "RecordBuffer",
    "Row",
    "Survey",
    "assign_offsets",
    "read_plain_batch",
    "read_rows",
    "survey_records",
]
