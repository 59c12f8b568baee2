"""Damage that no audit can find in the files, with the reason; and damage that none finds yet."""

from typing import Final

_SPARSE: Final = "indexes are sparse, and brokers find a batch from any earlier entry"
_NO_READER: Final = "without records of the transaction no reader needs an entry"
UNKNOWABLE: Final = {
    "an offset index emptied": _SPARSE,
    "an offset index thinned": _SPARSE,
    "an entry of a whole append in an offset index": "Kafka up to 3.9.0 writes it; see --strict",
    "a time index thinned": _SPARSE,
    "leader epochs: the first entry gone": "DeleteRecords leaves it",
    "leader epochs: one too many at the end": "a leadership that wrote nothing leaves it",
    "a transaction index deleted": _NO_READER,
    "an entry of a transaction index dropped": _NO_READER,
    "a transaction index entry with a later first offset": "a leader may have cleaned its start",
    "a log start inside the log": "DeleteRecords leaves it",
    "all offset checkpoints removed": "a partition may be copied without them",
    "the last batch removed, checkpoints adapted": "no file says that the log was longer",
    "a cleaner's point that is too low": "a broker killed after a cleaning leaves it",
    "all snapshots gone": "a broker that finds none replays the log",
}
# The parts are numbered: 0 for the log that was never cleaned, 1 for the cleaned part of the other.
NOT_FOUND_YET: Final[dict[str, tuple[int, ...]]] = {
    "a transaction index entry with the stable offset 0": (1,),
}
"""Damage that an audit should find."""
NOT_AGREED_YET: Final[dict[str, tuple[int, ...]]] = {}
"""Damage of which `logs verify --deep` and `audit integrity` find different kinds."""
FOUND_IN_SOME_LOGS: Final = {
    "a tombstone removed before its horizon": "only a young one must exist, by a reference",
    "a horizon a millisecond later": "only the horizons of the last cleaning show its time",
}
"""Damage that an audit finds in some logs only, with the reason."""
