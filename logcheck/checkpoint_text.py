"""The text of checkpoint files: version `0`, the number of lines, then the lines (decision).

offset checkpoints:       `topic partition offset`
leader-epoch-checkpoint:  `epoch start-offset`
*.properties, *.metadata: `key=value` or `key: value` per line, `#` begins a comment
"""

from typing import Final

from kafkawire.ids import TopicPartition
from kafkawire.sentinels import MAX_OFFSET
from logcheck.finding import Check, Damage, Finder, Report

VERSION: Final = "0"
_MAX_INT32: Final = 2**31 - 1
_MAX_DIGITS: Final = len(str(MAX_OFFSET))


def read_offset_checkpoint(data: bytes, file: str, report: Report) -> dict[TopicPartition, int]:
    """Return the offset of each partition; report lines that break the format."""
    offsets: dict[TopicPartition, int] = {}
    for number, fields in _rows(data, file, 3, report):
        partition = TopicPartition(fields[0], int(fields[1]))
        if partition in offsets:
            _find(report, file, number, "each partition once", f"{partition} again")
        offsets[partition] = int(fields[2])
    return offsets


def read_epoch_checkpoint(data: bytes, file: str, report: Report) -> list[tuple[int, int, int]]:
    """Return (line number, epoch, start offset) of each entry; report entries that go back."""
    epochs: list[tuple[int, int, int]] = []
    for number, fields in _rows(data, file, 2, report):
        epoch, offset = int(fields[0]), int(fields[1])
        if epochs and (epoch <= epochs[-1][1] or offset < epochs[-1][2]):
            expected = f"beyond epoch {epochs[-1][1]} from {epochs[-1][2]}"
            _find(report, file, number, expected, f"epoch {epoch} from {offset}", offset)
            continue
        epochs.append((number, epoch, offset))
    return epochs


def has_all_lines(data: bytes) -> bool:
    """Whether a checkpoint is empty, or has as many lines as it states."""
    lines = _lines(data)
    return not lines or lines[1:2] == [str(len(lines) - 2)]


def read_properties(data: bytes, file: str, report: Report) -> dict[str, str]:
    """Return the keys and values; report any line that is neither a pair nor a comment."""
    properties: dict[str, str] = {}
    for number, line in enumerate(_lines(data), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, found, value = line.partition("=" if "=" in line else ":")
        if found:
            properties[key.strip()] = value.strip()
        else:
            _find(report, file, number, "key=value", repr(line), damage=Damage.BAD_PROPERTY)
    return properties


def _rows(data: bytes, file: str, width: int, report: Report) -> list[tuple[int, list[str]]]:
    lines = _lines(data)
    if not lines:
        # Kafka creates the file with the partition and leaves it empty until the first entry.
        return []
    if lines[0].strip() != VERSION:
        _find(report, file, 1, f"version {VERSION}", repr(lines[0][:40]))
        return []
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.strip()]
    stated = lines[1].strip() if len(lines) > 1 else "none"
    if stated != str(len(rows)):
        _find(report, file, 2, f"{len(rows)} lines", stated[:40])
    good = []
    for number, fields in rows:
        if len(fields) == width and _are_numbers(*fields[-2:]):
            good.append((number, fields))
        else:
            _find(report, file, number, f"{width} fields", repr(" ".join(fields)[:80]))
    return good


def _are_numbers(number: str, offset: str) -> bool:
    """Whether a line ends with a partition or epoch and an offset, as Kafka can read them."""
    return _is_number(number, _MAX_INT32) and _is_number(offset, MAX_OFFSET)


def _is_number(field: str, most: int) -> bool:
    # Python refuses to read a number of thousands of digits.
    is_decimal = field.isascii() and field.isdecimal() and len(field) <= _MAX_DIGITS
    return is_decimal and int(field) <= most


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").splitlines()


def _find(
    report: Report,
    file: str,
    line: int,
    expected: str,
    found: str,
    offset: int | None = None,
    damage: Damage = Damage.BAD_CHECKPOINT_LINE,
) -> None:
    Finder(Check.CHECKPOINTS, report).find(damage, file, line, offset, expected, found)
