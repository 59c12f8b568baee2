"""Mutations that know the structure of credentials: DER, JSON, base64 and text of tokens.

The values around a mutation stay well-formed, so that the input passes the first checks.
Every choice comes from the given `random.Random`: the same seed makes the same input.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

MAX_INPUT_BYTES: Final = 256 * 1024
BYTES: Final = (b"", b"\0", b"\xff", b"\x80", b"=", b",", b'"', b"\\", b"\x7f" * 4, b"\xff" * 8)
NUMBERS: Final = (
    b"0", b"-1", b"1", b"4095", b"4096", b"8192", b"2147483648", b"9" * 19, b"9" * 5_000, b"1e400",
    b"NaN", "\u0664".encode(),
)  # fmt: skip
TEXTS: Final = ("", "\0", "none", "HS256", "RS256", "=2C", "=", "\ud800", "\u202e", "x" * 5_000)
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, -0.0, "", "none", [], {}, [[]], "x" * 5_000,
)  # fmt: skip
JSON_DEPTHS: Final = (3, 15, 100)
DER_DEPTHS: Final = (2, 39, 41, 2_000)
VISITED_DEPTH: Final = 20
_TOKENS: Final = re.compile(rb"[A-Za-z0-9_+/-]+|.", re.DOTALL)

Mutation = Callable[[bytes, random.Random], bytes]


def of_bytes(data: bytes, dice: random.Random) -> bytes:
    """Flip a bit, or replace, remove, insert or repeat a part."""
    start = dice.randrange(len(data) + 1)
    end = min(len(data), start + dice.choice((0, 1, 1, 2, 4, 16, len(data))))
    part = data[start:end]
    new = dice.choice(
        (
            b"",
            dice.choice(BYTES),
            dice.randbytes(dice.choice((1, 2, 8, 40))),
            part * dice.choice((2, 2, 3, 500)),
            bytes(each ^ (1 << dice.randrange(8)) for each in part),
        )
    )
    return data[:start] + new + data[end:]


def of_text(data: bytes, dice: random.Random) -> bytes:
    """Replace, remove, repeat or exchange tokens, as words, numbers and separators are."""
    tokens = _TOKENS.findall(data) or [b""]
    one, other = dice.randrange(len(tokens)), dice.randrange(len(tokens))
    kind = dice.randrange(6)
    if kind == 0:
        tokens[one], tokens[other] = tokens[other], tokens[one]
    elif kind == 1:
        del tokens[one]
    elif kind == 2:
        tokens[one] *= dice.choice((2, 3, 1_000))
    elif kind == 3:
        tokens[one] = dice.choice(NUMBERS)
    elif kind == 4:
        tokens[one] = dice.choice(TEXTS).encode("utf-8", "surrogatepass")
    else:
        tokens[one:one] = tokens[min(one, other) : max(one, other)]
    return b"".join(tokens)


def of_json(data: bytes, dice: random.Random) -> bytes:
    """Replace, add or remove a value, or write a name twice."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return of_text(data, dice)
    if dice.randrange(8) == 0:
        return data.replace(b"{", b'{"alg":"none","keys":[],', 1)
    holders = [holder for holder in _holders(tree) if holder]
    if not holders:
        return json.dumps(dice.choice(VALUES)).encode()
    holder = dice.choice(holders)
    key = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    kind = dice.randrange(4)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        # One value stands for a nesting that `json` itself would not write.
        value: Any = []
        for _ in range(dice.choice(JSON_DEPTHS)):
            value = [value]
        holder[key] = value
    elif kind == 2 and isinstance(holder, list):
        holder.extend([holder[key]] * dice.choice((1, 70)))
    else:
        holder[key] = dice.choice((*VALUES, *TEXTS))
    return json.dumps(tree).encode()


def _holders(tree: Any) -> list[Any]:
    if not isinstance(tree, dict | list):
        return []
    inner = tree.values() if isinstance(tree, dict) else tree
    return [tree, *(holder for each in inner for holder in _holders(each))]


def of_token(data: bytes, dice: random.Random) -> bytes:
    """Mutate the header or the claims of a JSON Web Token as JSON, or its text."""
    parts = data.split(b".")
    which = dice.randrange(len(parts) + 1)
    if which >= min(2, len(parts)):
        return of_text(data, dice)
    try:
        decoded = base64.urlsafe_b64decode(parts[which] + b"==")
    except ValueError:
        return of_bytes(data, dice)
    parts[which] = base64.urlsafe_b64encode(of_json(decoded, dice)).rstrip(b"=")
    return b".".join(parts)


def of_der(data: bytes, dice: random.Random) -> bytes:
    """Mutate one value of DER; the lengths around it stay right, except the mutated one."""
    values = list(_values(data, 0, len(data), ()))
    if not values:
        return of_bytes(data, dice)
    path = dice.choice(values)
    start, body, end = path[-1]
    new = _changed(data[start:end], data[body:end], dice)
    for outer_start, outer_body, outer_end in reversed(path[:-1]):
        content = data[outer_body:start] + new + data[end:outer_end]
        new = _encoded(data[outer_start], content)
        start, end = outer_start, outer_end
    return data[:start] + new + data[end:]


def _changed(whole: bytes, content: bytes, dice: random.Random) -> bytes:
    tag = whole[0]
    kind = dice.randrange(9)
    if kind == 0:
        return b""
    if kind == 1:
        return whole * dice.choice((2, 3, 200))
    if kind == 2:
        return _encoded(dice.randrange(256), content)
    if kind == 3:
        return _encoded(tag, of_bytes(content, dice))
    if kind == 4:
        return _encoded(tag, dice.choice((b"", b"\0", b"\x7f" * 3, b"\xff" * 9, b"\x81" * 3_000)))
    if kind == 5:
        wrong = dice.choice((b"\x80", b"\x84\xff\xff\xff\xff", b"\x89" + b"\1" * 9, b"\x7f", b""))
        return bytes([tag]) + wrong + content
    if kind == 6:
        # More bytes for the length than DER allows.
        return bytes([tag, 0x84]) + len(content).to_bytes(4, "big") + content
    nested = whole
    for _ in range(dice.choice(DER_DEPTHS)):
        nested = _encoded(dice.choice((0x30, 0x04, 0xA0)), nested)
    return nested


def _encoded(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + content


Place = tuple[int, int, int]


def _values(data: bytes, start: int, end: int, outer: tuple[Place, ...]) -> list[tuple[Place, ...]]:
    """Return the values between two positions and inside them, each with those around it."""
    found: list[tuple[Place, ...]] = []
    while start + 2 <= end and len(outer) < VISITED_DEPTH:
        body, length = start + 2, data[start + 1]
        if length > 0x80:
            body += length - 0x80
            length = int.from_bytes(data[start + 2 : body], "big")
        if length == 0x80 or body + length > end:
            return found
        path = (*outer, (start, body, body + length))
        found.append(path)
        # Octet strings of PKCS#12 contain DER, too.
        if data[start] & 0x20 or data[start] == 0x04:
            found += _values(data, body, body + length, path)
        start = body + length
    return found
