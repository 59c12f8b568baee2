"""The generated source of the compiled codecs."""

import subprocess
import sys

import pytest

from kafkawire.declaration import layout_of
from kafkawire.hot_codecs import READ, WRITTEN, codecs_source
from kafkawire.native import compiled

CHANGED = """
from kafkawire import hot_codecs, native, schema
hot_codecs.declarations_state = lambda: 0
assert native.compiled("_codecs") is None
assert native.decode is schema.decode
"""


@pytest.mark.parametrize("message", READ)
def test_a_request_is_read_field_by_field_in_the_order_of_the_wire(message: type) -> None:
    body = codecs_source().partition(f"cdef object read_{message.__name__}(")[2]
    places = [body.index(f"m.{each.name} = ") for each in layout_of(message).fields]
    assert places == sorted(places)


@pytest.mark.parametrize("message", [*READ, *WRITTEN])
def test_the_declared_versions_are_compiled(message: type) -> None:
    first, last = layout_of(message).versions or (0, 0)
    assert f"if kind is {message.__name__} and {first} <= version <= {last}:" in codecs_source()


def test_compiled_codecs_of_other_declarations_are_not_used() -> None:
    if compiled("_codecs") is None:
        pytest.skip("the codecs are not compiled")
    subprocess.run([sys.executable, "-c", CHANGED], check=True)
