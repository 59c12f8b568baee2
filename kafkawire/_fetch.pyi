"""Types of the compiled twin, equal to those of the plain functions."""

from kafkawire.fetch_loops import decode_fetch as decode_fetch
from kafkawire.fetch_loops import encode_fetched as encode_fetched

INTERFACE_VERSION: int
