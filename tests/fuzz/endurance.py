"""Sends fresh hostile input to servers for a given time, and keeps harmful input (edge)."""

import os
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tests.fuzz.judged_broker import JudgedBroker

T = TypeVar("T")

ROUND_S: Final = 5.0
"""Lifetime of one server, so that the effects of earlier inputs do not mask later ones."""


def survive(
    begin: Callable[[], tuple[JudgedBroker, T]],
    source: Callable[[random.Random, T], Callable[[], tuple[str, bytes]]],
    example: Path,
    everyday_s: float,
    is_enough: Callable[[Counter[str]], bool],
) -> None:
    """Send input for `OTTLA_FUZZ_S` seconds, else `everyday_s`, and until it is enough.

    `is_enough` gets the count of each kind: on a busy machine the starts of servers take most of
    the time.

    `begin` starts a server and returns it with its surroundings. `source` returns a function that
    draws input for it: a kind, and bytes. Harmful input is written beside `example`, with its
    suffix.

    Raises:
        AssertionError: an input did harm.
    """
    seed = int(os.environ.get("OTTLA_SEED", secrets.randbits(32)))
    print(f"OTTLA_SEED={seed}")  # noqa: T201 - shown when it fails
    rng = random.Random(seed)
    harms: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()
    end_s = time.monotonic() + float(os.environ.get("OTTLA_FUZZ_S", everyday_s))

    def is_over() -> bool:
        return time.monotonic() >= end_s and is_enough(counts)

    while not is_over():
        server, around = begin()
        draw = source(rng, around)
        round_end_s = time.monotonic() + ROUND_S
        while time.monotonic() < round_end_s and not is_over():
            kind, data = draw()
            counts[kind] += 1
            if harm := server.endure(kind, data):
                file = example.with_stem(f"seed{seed}-{counts.total()}")
                if (kind, harm.kind) not in harms:
                    file.write_bytes(data)
                    harms[kind, harm.kind] = f"{harm.text} ({file})"
                if harm.is_deadly:
                    break
    print(f"{counts.total()} inputs of {len(counts)} kinds")  # noqa: T201
    assert not harms, "\n\n".join(harms.values())
