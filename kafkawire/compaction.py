"""Composition: the loops over records for compaction, compiled if possible.

As in `kafkawire.records_scanner`, only the speed differs, and the size of a slot of the map
(tests/property/kafkawire/test_compaction_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.compaction_loops import INTERFACE_VERSION, Choice

if TYPE_CHECKING:
    from kafkawire.compaction_loops import (
        BYTES_PER_SLOT,
        OffsetMap,
        choose_records,
        index_keys,
        rewrite_records,
    )

    HAS_COMPILED_LOOPS: bool
else:
    try:
        from kafkawire import _compaction

        # An editable install keeps its compiled module when the sources change.
        if _compaction.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled loops are of another version")
        from kafkawire._compaction import (
            BYTES_PER_SLOT,
            OffsetMap,
            choose_records,
            index_keys,
            rewrite_records,
        )

        HAS_COMPILED_LOOPS = True
    except ImportError:
        from kafkawire.compaction_loops import (
            BYTES_PER_SLOT,
            OffsetMap,
            choose_records,
            index_keys,
            rewrite_records,
        )

        HAS_COMPILED_LOOPS = False

__all__ = [
    "BYTES_PER_SLOT",
    "HAS_COMPILED_LOOPS",
    "Choice",
    "OffsetMap",
    "choose_records",
    "index_keys",
    "rewrite_records",
]
