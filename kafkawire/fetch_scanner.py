"""Composition: the codec of Fetch requests and responses, compiled if possible.

As in `records_scanner`, only the speed of the twins differs
(tests/property/kafkawire/test_fetch_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.fetch_loops import INTERFACE_VERSION

if TYPE_CHECKING:
    from kafkawire.fetch_loops import decode_fetch, encode_fetched

    HAS_COMPILED_FETCH: bool
else:
    try:
        from kafkawire import _fetch

        # An editable install keeps its compiled module when the sources change.
        if _fetch.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled Fetch codec is of another version")
        from kafkawire._fetch import decode_fetch, encode_fetched

        HAS_COMPILED_FETCH = True
    except ImportError:
        from kafkawire.fetch_loops import decode_fetch, encode_fetched

        HAS_COMPILED_FETCH = False

__all__ = ["HAS_COMPILED_FETCH", "decode_fetch", "encode_fetched"]
