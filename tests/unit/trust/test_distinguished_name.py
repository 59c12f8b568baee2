"""The text of a certificate's subject: `trust.distinguished_name`.

Java 17's X500Principal.getName() wrote the names in the golden file.
"""

import base64
import json
import random
from pathlib import Path

import pytest

from trust.distinguished_name import MAX_CHARS, is_distinguished_name, subject_of

ROWS = json.loads((Path(__file__).parent / "golden_distinguished_names.json").read_text("utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_the_text_is_that_of_java(row: dict[str, str]) -> None:
    assert subject_of(base64.b64decode(row["certificate"])) == row["name"]


@pytest.mark.fresh_seeds(20)
def test_a_damaged_certificate_is_refused_or_has_another_name(seed: int) -> None:
    rng = random.Random(seed)
    good = base64.b64decode(rng.choice(ROWS)["certificate"])
    for _ in range(50):
        data = bytearray(good[: rng.randrange(len(good) + 1)] if rng.random() < 0.3 else good)
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            subject_of(bytes(data))
        except ValueError:
            continue


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x00",
        b"\x30\x02\x30\x00",
        b"\x31\x00",
        b"\x30\x80\x00",
        b"\x30\x85\x01\x01\x01\x01\x01",
        b"\x30\x84\xff\xff\xff\xff",
        # A name whose type is empty.
        bytes.fromhex("301930170201000201000201000201003009310730050600") + b"\x0c\x01a",
    ],
    ids=lambda data: data.hex()[:16] or "empty",
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        subject_of(data)


def test_a_nul_character_is_escaped() -> None:
    attribute = bytes.fromhex("0603550403") + b"\x0c\x03a\0b"
    name = b"\x30" + bytes([len(attribute)]) + attribute
    name = b"\x31" + bytes([len(name)]) + name
    name = b"\x30" + bytes([len(name)]) + name
    tbs = b"\x02\x01\x00" * 4 + name
    tbs = b"\x30" + bytes([len(tbs)]) + tbs
    assert subject_of(b"\x30" + bytes([len(tbs)]) + tbs) == "CN=a\\00b"


# As `new X500Principal(text)` of Java 17 decides.
VALID = (
    "", "CN=a", "Cn=a,O=b", "CN=", "1.2.3=a", "oid.1.2.3=a", "CN=a;O=b", 'CN="a,b"', "CN=a+O=b",
    "CN=#0c0161", r"CN=a\,b", " CN = a ", "S=x", "EMAILADDRESS=a@b", "IP=1", "CN=a=b", "CN=a#b",
    "CN=\u00e9", r"CN=\41", "CN=a b  c", "CN==a", "CN=a + O=b", "DC=x,DC=y", "UID=u",
)  # fmt: skip
INVALID = (
    "  ", "foo", "CN", "XX=a", 'CN="a', "CN=#zz", "CN=#", "CN=#0c01", r"CN=a\zz", "CN=a,",
    "CN=a,,O=b", ",CN=a", "E=a", "CN=a<b", 'CN=a"b', "=a", "CN=a,O", "9.9=a", "1=a", "1.2.=a",
    "CN=a\\", "CN=+",
)  # fmt: skip


@pytest.mark.parametrize("text", VALID)
def test_a_name_that_java_accepts_is_valid(text: str) -> None:
    assert is_distinguished_name(text)


@pytest.mark.parametrize("text", INVALID)
def test_a_name_that_java_rejects_is_invalid(text: str) -> None:
    assert not is_distinguished_name(text)


def test_a_long_name_is_refused_without_long_work() -> None:
    assert is_distinguished_name("CN=" + "a" * (MAX_CHARS - 3))
    assert not is_distinguished_name("CN=" + "a" * MAX_CHARS)
    assert not is_distinguished_name("CN=" + "\\," * (MAX_CHARS // 2 - 2) + "<")
