"""Composition: the two ends of a Produce request, compiled where that is possible.

As for `records_scanner`: nothing but speed differs between the twins
(tests/property/kafkawire/test_produce_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.produce_loops import INTERFACE_VERSION, Accepted

if TYPE_CHECKING:
    from kafkawire.produce_loops import decode_produce, encode_accepted

    HAS_COMPILED_PRODUCE: bool
else:
    try:
        from kafkawire import _produce

        # An editable install keeps its compiled module when the sources move on.
        if _produce.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled Produce codec is of another version")
        from kafkawire._produce import decode_produce, encode_accepted

        HAS_COMPILED_PRODUCE = True
    except ImportError:
        from kafkawire.produce_loops import decode_produce, encode_accepted

        HAS_COMPILED_PRODUCE = False

__all__ = ["HAS_COMPILED_PRODUCE", "Accepted", "decode_produce", "encode_accepted"]
