"""Composition: the loops over records that compaction needs, compiled where that is possible.

As with `kafkawire.records_scanner`, nothing but speed and the size of a map's slot differs
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

        # An editable install keeps its compiled module when the sources move on.
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
