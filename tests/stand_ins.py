"""Decision: the marker of tests that replace a method of a class."""

from typing import Final

import pytest

from speedups.finder import is_enabled

takes_stand_in: Final = pytest.mark.skipif(
    is_enabled(), reason="the methods of a compiled class cannot be replaced"
)
