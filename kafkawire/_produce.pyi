"""Types of the compiled twin, equal to those of the plain functions."""

from kafkawire.produce_loops import decode_produce as decode_produce
from kafkawire.produce_loops import encode_accepted as encode_accepted

INTERFACE_VERSION: int
