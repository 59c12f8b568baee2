"""Credentials under structure-aware mutation: only documented errors, in bounded time and memory.

`OTTLA_SEED` repeats a run, `OTTLA_FUZZ_SECONDS` sets the duration of the long one for each reader.
"""

from __future__ import annotations

import importlib.util
import os
import random
import secrets
import sys
import time
import tracemalloc
from collections import Counter
from typing import Final

import pytest

from tests.property.trust import credential_readers
from tests.property.trust.credential_readers import Reader
from tests.property.trust.mutation import MAX_INPUT_BYTES

READERS = credential_readers.READERS
if importlib.util.find_spec("jwt") is not None:
    from tests.property.trust import signed_token_readers

    READERS = (*READERS, *signed_token_readers.READERS)

SEED: Final = int(os.environ.get("OTTLA_SEED") or secrets.randbits(32))
LONG_S: Final = float(os.environ.get("OTTLA_FUZZ_SECONDS") or 20)
MAX_MUTATIONS: Final = 4
RANDOM_SHARE: Final = 0.1
"""Share of the inputs that are random bytes."""
BASE_BYTES: Final = 1024 * 1024
MAX_GROWTH: Final = 200
"""Limits of the memory for one input: a base, and bytes per byte of the input."""
LONGEST_ERROR: Final = 600


def make_input(reader: Reader, dice: random.Random) -> bytes:
    """Return random bytes, or a valid input after some mutations."""
    if dice.random() < RANDOM_SHARE:
        return dice.randbytes(dice.choice((0, 1, 8, 100, 2_000)))
    data = dice.choice(reader.valid)
    for _ in range(dice.randint(1, MAX_MUTATIONS)):
        data = dice.choice(reader.mutations)(data, dice)[:MAX_INPUT_BYTES]
    return data


def judge(reader: Reader, data: bytes) -> str:
    """Read one input, and return whether it was refused or read."""
    started_s = time.thread_time()
    outcome, text = "read", "none"
    try:
        reader.read(data)
    except reader.errors as error:
        outcome, text = "refused", str(error)
    assert time.thread_time() - started_s <= reader.limit_s, "took too long"
    assert 0 < len(text) <= LONGEST_ERROR
    return outcome


def judge_seed(reader: Reader, seed: int) -> str:
    """Judge the input of a seed; a failure shows both."""
    return judge_input(reader, seed, make_input(reader, random.Random(seed)))


def judge_input(reader: Reader, seed: int, data: bytes) -> str:
    try:
        return judge(reader, data)
    except Exception as error:
        shown = data[:2_000].hex()
        raise AssertionError(f"{reader.name}, seed {seed}: {error!r} for {shown}") from error


def skip_without(reader: Reader) -> None:
    if reader.needs and importlib.util.find_spec(reader.needs) is None:
        pytest.skip(f"needs {reader.needs}")


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_valid_inputs_are_read(reader: Reader) -> None:
    skip_without(reader)
    assert "read" in {judge(reader, data) for data in reader.valid}


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_mutated_credentials(reader: Reader) -> None:
    skip_without(reader)
    found = Counter(judge_seed(reader, SEED + each) for each in range(reader.daily_count))
    assert found["refused"] > 0 or not reader.errors, f"no input of seed {SEED} was malformed"


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_a_mutated_credential_takes_limited_memory(reader: Reader) -> None:
    skip_without(reader)
    tracemalloc.start()
    try:
        for seed in range(SEED, SEED + reader.daily_count // 4):
            data = make_input(reader, random.Random(seed))
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            judge_input(reader, seed, data)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before <= BASE_BYTES + MAX_GROWTH * len(data), f"seed {seed}"
    finally:
        tracemalloc.stop()


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_mutated_credentials_for_a_long_time(reader: Reader) -> None:
    skip_without(reader)
    found: Counter[str] = Counter()
    ends_s = time.monotonic() + LONG_S
    for seed in range(SEED, sys.maxsize):
        if time.monotonic() >= ends_s:
            break
        found[judge_seed(reader, seed)] += 1
    sys.stderr.write(f"\n{reader.name}: OTTLA_SEED={SEED} {dict(found)}\n")
    assert found.total() > reader.daily_count
