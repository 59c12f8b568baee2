"""Random messages for tests: any declared message, with values that its version can carry.

Edge cases are frequent: nulls, empty and long strings and arrays, the limits of each number, and
defaults (which decide whether a tagged field is sent).
"""

import random
import uuid
from collections.abc import Iterator

from kafkawire.apis import APIS, Api
from kafkawire.declaration import Field, Kind, Layout, WireType, layout_of
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID

STRINGS = ("", "a", "topic-1", "zażółć gęślą jaźń", "\0", "x" * 126, "y" * 127, "z" * 300)
BIT_COUNTS = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}
UNSIGNED = "HI"
LONG_ARRAY = 20


def declared_messages() -> Iterator[tuple[type, int]]:
    """Yield every declared message in every version."""
    for api in APIS.values():
        for version in versions(api):
            yield api.request, version
            yield api.response, version


def versions(api: Api) -> range:
    first, last = api.decodable
    return range(first, last + 1)


def message_of(message_type: type, version: int, seed: object) -> object:
    """Return a message in which only fields of `version` differ from their defaults."""
    return Values(version, random.Random(f"{message_type.__name__} {version} {seed}")).struct(
        layout_of(message_type)
    )


class Values:
    """A generator of random values of declared types."""

    def __init__(self, version: int, rng: random.Random) -> None:
        self._version = version
        self._rng = rng

    def struct(self, layout: Layout) -> object:
        present = [each for each in layout.fields if each.is_in(self._version)]
        return layout.type(**{each.name: self._field(each) for each in present})

    def _field(self, each: Field) -> object:
        # The default of a nullable field may be null in versions where null is not allowed.
        has_default = each.default is not None or each.is_nullable_in(self._version)
        if has_default and self._rng.random() < (0.5 if each.tag is not None else 0.1):
            return each.default
        if each.is_nullable_in(self._version) and each.tag is None and self._rng.random() < 0.2:
            return None
        return self.value(each.wire, each.name)

    def value(self, wire: WireType[object], name: str) -> object:
        if wire.kind is Kind.FIXED:
            return self._number(wire, name)
        if wire.kind is Kind.UUID:
            return self._rng.choice((ZERO_TOPIC_ID, uuid.UUID(int=self._rng.getrandbits(128))))
        if wire.kind is Kind.STRING:
            return self._rng.choice(STRINGS)
        if wire.kind in (Kind.BYTES, Kind.RECORDS):
            return self._rng.randbytes(self._rng.choice((0, 1, 126, 127, 400)))
        if wire.layout is not None:
            return self.struct(wire.layout)
        assert wire.element is not None
        return [self.value(wire.element, name) for _ in range(self._count(wire.element))]

    def _count(self, element: WireType[object]) -> int:
        if element.kind is Kind.FIXED and self._rng.random() < 0.2:
            return LONG_ARRAY
        return self._rng.choice((0, 1, 1, 2, 3))

    def _number(self, wire: WireType[object], name: str) -> object:
        if name.endswith("error_code"):
            return self._rng.choice([int(code) for code in ErrorCode])
        if wire.code == "?":
            return self._rng.choice((False, True))
        if wire.code == "d":
            return self._rng.choice((0.0, -1.5, 1e300, self._rng.random()))
        bits = BIT_COUNTS[wire.code]
        low = 0 if wire.code in UNSIGNED else -(1 << (bits - 1))
        high = low + (1 << bits) - 1
        return self._rng.choice((0, 1, low, high, self._rng.randint(low, high)))
