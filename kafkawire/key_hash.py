"""The 128-bit hash by which audits identify keys: MurmurHash3 x64, seed 0 (decision).

It does not resist an attacker: compare the bytes of two keys before reporting them as equal.

Source: MurmurHash3.cpp, public domain, by Austin Appleby.
"""

from typing import Final

_MASK: Final = 2**64 - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def hash_key(key: bytes) -> tuple[int, int]:
    """Return the 128-bit hash of `key` as two signed 64-bit numbers."""
    first = second = 0
    whole = len(key) - len(key) % 16
    for start in range(0, whole, 16):
        first ^= _mix_first(int.from_bytes(key[start : start + 8], "little"))
        first = ((_rotate(first, 27) + second) * 5 + 0x52DCE729) & _MASK
        second ^= _mix_second(int.from_bytes(key[start + 8 : start + 16], "little"))
        second = ((_rotate(second, 31) + first) * 5 + 0x38495AB5) & _MASK
    tail = key[whole:]
    second ^= _mix_second(int.from_bytes(tail[8:], "little"))
    first ^= _mix_first(int.from_bytes(tail[:8], "little"))
    first ^= len(key)
    second ^= len(key)
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    first, second = _finish(first), _finish(second)
    first = (first + second) & _MASK
    second = (second + first) & _MASK
    return _signed(first), _signed(second)


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


def _mix_first(word: int) -> int:
    return _rotate(word * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_second(word: int) -> int:
    return _rotate(word * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33


def _signed(number: int) -> int:
    return number - 2**64 if number >> 63 else number


def shard_of(first: int, shard_count: int) -> int:
    """Return the shard, out of `shard_count`, of the key with the hash (`first`, ...)."""
    return (first & _MASK) % shard_count
