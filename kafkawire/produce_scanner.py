"""Composition: the codec of Produce requests and responses, compiled if possible.

As in `records_scanner`, only the speed of the twins differs
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

        # An editable install keeps its compiled module when the sources change.
        if _produce.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled Produce codec is of another version")
        from kafkawire._produce import decode_produce, encode_accepted

        HAS_COMPILED_PRODUCE = True
    except ImportError:
        from kafkawire.produce_loops import decode_produce, encode_accepted

        HAS_COMPILED_PRODUCE = False

__all__ = ["HAS_COMPILED_PRODUCE", "Accepted", "decode_produce", "encode_accepted"]
