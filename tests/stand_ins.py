"""Tests that put something in the place of a class's method. Decision."""

from typing import Final

import pytest

from speedups.finder import is_enabled

takes_stand_in: Final = pytest.mark.skipif(
    is_enabled(), reason="a compiled class takes no stand-in for its methods"
)
