"""The functions that exist twice, compiled and plain, and the choice between them (composition).

The loops over records, and the codecs of the messages on the hot path, are compiled at install time
if Cython and a C compiler are available. Each compiled function has a plain twin with the same
results and errors, which is its documentation and the oracle of its tests
(tests/property/kafkawire/test_*_twins.py). The plain twins run where nothing was compiled, where
the compiled module belongs to other sources, and with OTTLA_PURE_PYTHON=1 in the environment. Only
the speed differs.

A module is loaded when one of its names is first imported from here: a broker needs no audits.
"""

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

# Raised with every change of a function that exists twice, here and in `_numbers.pxd`: an editable
# install keeps its compiled modules when the sources change.
INTERFACE_VERSION: Final = 9

_TWINS: Final = {
    ("_codecs", "headers"): ("encode_response_parts",),
    ("_codecs", "plain_codecs"): ("encode_accepted",),
    ("_codecs", "schema"): ("decode",),
    ("_columns", "columns_loops"): ("RecordColumns", "read_plain_batches", "survey_section"),
    ("_columns", "key_hash"): ("hash_key",),
    ("_columns", "key_table_loops"): ("KeyTable",),
    ("_compaction", "compaction_loops"): (
        "BYTES_PER_SLOT", "OffsetMap", "choose_records", "index_keys", "rewrite_records",
    ),
    ("_frames", "headers"): ("decode_request_header",),
    ("_frames", "plain_codecs"): ("frame_response", "split_frames"),
    ("_records", "records_header"): ("assign_offsets",),
    ("_records", "records_loops"): (
        "RecordBuffer", "read_plain_batch", "read_rows", "survey_records",
    ),
}  # fmt: skip
"""By compiled module and plain module: the names that both define."""


def compiled(module: str) -> ModuleType | None:
    """Return the compiled `module`, for example "_records"; None if it must not be used."""
    if os.environ.get("OTTLA_PURE_PYTHON", "0") not in ("", "0"):
        return None
    try:
        found = import_module(f"kafkawire.{module}")
    except ImportError:
        return None
    # The modules of some older releases hold no version.
    version = getattr(found, "INTERFACE_VERSION", None)
    return found if version == INTERFACE_VERSION else None


IS_COMPILED: Final = compiled("_records") is not None
"""Whether the loops over records are compiled."""

if TYPE_CHECKING:
    from kafkawire.columns_loops import RecordColumns as RecordColumns
    from kafkawire.columns_loops import read_plain_batches as read_plain_batches
    from kafkawire.columns_loops import survey_section as survey_section
    from kafkawire.compaction_loops import BYTES_PER_SLOT as BYTES_PER_SLOT
    from kafkawire.compaction_loops import OffsetMap as OffsetMap
    from kafkawire.compaction_loops import choose_records as choose_records
    from kafkawire.compaction_loops import index_keys as index_keys
    from kafkawire.compaction_loops import rewrite_records as rewrite_records
    from kafkawire.headers import decode_request_header as decode_request_header
    from kafkawire.headers import encode_response_parts as encode_response_parts
    from kafkawire.key_hash import hash_key as hash_key
    from kafkawire.key_table_loops import KeyTable as KeyTable
    from kafkawire.plain_codecs import encode_accepted as encode_accepted
    from kafkawire.plain_codecs import frame_response as frame_response
    from kafkawire.plain_codecs import split_frames as split_frames
    from kafkawire.records_header import assign_offsets as assign_offsets
    from kafkawire.records_loops import RecordBuffer as RecordBuffer
    from kafkawire.records_loops import read_plain_batch as read_plain_batch
    from kafkawire.records_loops import read_rows as read_rows
    from kafkawire.records_loops import survey_records as survey_records
    from kafkawire.schema import decode as decode
else:

    def __getattr__(name):
        """Return one of the twins, and keep it (PEP 562)."""
        for (module, plain), names in _TWINS.items():
            if name in names:
                chosen = compiled(module) or import_module(f"kafkawire.{plain}")
                globals()[name] = getattr(chosen, name)
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
