"""Hostile bytes and text in place of stores, certificates and login modules.

Every reader returns a result or raises its own error, and never quotes a secret.
"""

import importlib.util
from collections.abc import Callable
from typing import Final, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.trust.stores import GOLDEN, KEY_PASSWORD, PASSWORD, jks
from trust.alternative_names import alternative_names_of
from trust.distinguished_name import subject_of
from trust.jaas import MODULES, JaasError, parse_jaas
from trust.key_store import key_pem, trust_pem
from trust.pem import normalised

EXAMPLES: Final = 300
LONGEST: Final = 300
"""Characters of an error."""
SECRET = "s3cret"
JAAS = f'{MODULES["PLAIN"]} required username="a" password="{SECRET}" user_a="{SECRET}";'
JAVA = sorted(name for name in GOLDEN if name.endswith(("jks", "jceks")))
PKCS12 = sorted(name for name in GOLDEN if name.endswith("p12"))
needs_cryptography = pytest.mark.skipif(
    importlib.util.find_spec("cryptography") is None, reason="needs cryptography"
)

T = TypeVar("T")
Edits = list[tuple[int, int, bytes]]
EDITS = st.lists(
    st.tuples(st.integers(0, 2_000), st.integers(0, 8), st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: Edits) -> bytes:
    """Return `data` with some bytes replaced, inserted or left out."""
    for position, length, new in edits:
        start = position % (len(data) + 1)
        data = data[:start] + new + data[start + length :]
    return data


def read_store(data: bytes, password: str) -> None:
    """Read a store in every way; only `ValueError` may be raised."""
    for read in (
        lambda: key_pem(data, password, KEY_PASSWORD),
        lambda: key_pem(data, password, ""),
        lambda: trust_pem(data, password),
    ):
        pem, error = outcome(read, ValueError)
        assert PASSWORD not in error
        assert KEY_PASSWORD not in error
        assert pem is None or normalised(pem) == pem


def outcome(read: Callable[[], T], kind: type[ValueError]) -> tuple[T | None, str]:
    """Return the result of `read`, or the text of its error, which must be of this kind."""
    try:
        return read(), ""
    except kind as error:
        text = str(error)
    assert 0 < len(text) < LONGEST
    return None, text


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(JAVA), EDITS, st.sampled_from([PASSWORD, ""]))
def test_damaged_stores_of_java(name: str, edits: Edits, password: str) -> None:
    read_store(edited(GOLDEN[name], edits), password)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(0, 2**32 - 1))
def test_stores_with_a_valid_signature_and_any_entries(entries: list[bytes], count: int) -> None:
    read_store(jks(*entries, count=count, password=PASSWORD), PASSWORD)
    heads = [b"\0\0\0%c\0\0" % (1 + len(each) % 2) + bytes(8) + each for each in entries]
    read_store(jks(*heads, password=PASSWORD), PASSWORD)


@needs_cryptography
@settings(max_examples=EXAMPLES)
@given(st.sampled_from(PKCS12), EDITS, st.sampled_from([PASSWORD, ""]))
def test_damaged_stores_of_pkcs12(name: str, edits: Edits, password: str) -> None:
    read_store(edited(GOLDEN[name], edits), password)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x30", b"\xfe\xed\xfe\xed", b"-----BEGIN"]))
def test_any_bytes(data: bytes, start: bytes) -> None:
    read_store(start + data, PASSWORD)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(["ca.der", "b.der"]), EDITS)
def test_damaged_certificates(name: str, edits: Edits) -> None:
    outcome(lambda: subject_of(edited(GOLDEN[name], edits)), ValueError)
    outcome(lambda: alternative_names_of(edited(GOLDEN[name], edits)), ValueError)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=200))
@example(b"\x30\x84\xff\xff\xff\xff")
@example(b"\x30\x80")
def test_any_bytes_in_place_of_a_certificate(data: bytes) -> None:
    name, _ = outcome(lambda: subject_of(data), ValueError)
    assert name is None
    outcome(lambda: alternative_names_of(data), ValueError)


@settings(max_examples=EXAMPLES)
@given(EDITS, st.sampled_from(sorted(MODULES)))
def test_damaged_login_modules(edits: Edits, mechanism: str) -> None:
    read_jaas(edited(JAAS.encode(), edits).decode("latin-1"), mechanism)


@settings(max_examples=EXAMPLES)
@given(st.text(alphabet=st.sampled_from("a._$=;\"'\\/*\n\r\t\0é0 user_"), max_size=80))
@example("/*" * 30_000)
@example('"' + "\\" * 60_000)
def test_any_text_in_place_of_a_login_module(text: str) -> None:
    for start in ("", f"{MODULES['PLAIN']} required "):
        read_jaas(start + text, "PLAIN")


def read_jaas(text: str, mechanism: str) -> None:
    module, error = outcome(lambda: parse_jaas(text, mechanism), JaasError)
    assert SECRET not in f"{module!r} {error}"
