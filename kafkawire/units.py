"""Units of size in bytes (decision)."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
