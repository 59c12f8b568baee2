"""Composition: the two ends of a Fetch request, compiled where that is possible.

As for `records_scanner`: nothing but speed differs between the twins
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

        # An editable install keeps its compiled module when the sources move on.
        if _fetch.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled Fetch codec is of another version")
        from kafkawire._fetch import decode_fetch, encode_fetched

        HAS_COMPILED_FETCH = True
    except ImportError:
        from kafkawire.fetch_loops import decode_fetch, encode_fetched

        HAS_COMPILED_FETCH = False

__all__ = ["HAS_COMPILED_FETCH", "decode_fetch", "encode_fetched"]
