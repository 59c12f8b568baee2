"""Parses checkpoint files. Decision: no I/O.

offset checkpoints:       0, the number of lines, then `topic partition offset` per line
leader-epoch-checkpoint:  0, the number of lines, then `epoch start-offset` per line
*.properties, *.metadata: `key=value` or `key: value` per line, `#` begins a comment
"""

from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.logs.finding import Damage, Finding, Report

VERSION: Final = 0


def read_offset_checkpoint(text: str, file: str, report: Report) -> dict[TopicPartition, int]:
    """Return the offset of each partition; report violations of the format."""
    offsets: dict[TopicPartition, int] = {}
    for number, line in _counted_lines(text, file, report):
        fields = line.split(" ")
        if len(fields) != 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            reason = f"{line!r} is not `topic partition offset`"
            report(_finding(Damage.BAD_LINE, file, number, reason))
            continue
        partition = TopicPartition(fields[0], int(fields[1]))
        if partition in offsets:
            report(_finding(Damage.DUPLICATE_LINE, file, number, f"{partition} is listed twice"))
        offsets[partition] = int(fields[2])
    return offsets


def read_epoch_checkpoint(text: str, file: str, report: Report) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs; report pairs out of order."""
    epochs: list[tuple[int, int]] = []
    for number, line in _counted_lines(text, file, report):
        fields = line.split(" ")
        if len(fields) != 2 or not all(field.isdecimal() for field in fields):
            report(_finding(Damage.BAD_LINE, file, number, f"{line!r} is not `epoch offset`"))
            continue
        epoch, offset = int(fields[0]), int(fields[1])
        if epochs and (epoch <= epochs[-1][0] or offset < epochs[-1][1]):
            last_epoch, last_offset = epochs[-1]
            reason = f"epoch {epoch} from {offset} follows epoch {last_epoch} from {last_offset}"
            report(_finding(Damage.NOT_INCREASING, file, number, reason, offset))
        epochs.append((epoch, offset))
    return epochs


def read_properties(text: str, file: str, report: Report) -> dict[str, str]:
    """Return the keys and values; report any line that is neither a pair nor a comment."""
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = "=" if "=" in line else ":"
        key, found, value = line.partition(separator)
        if found:
            properties[key.strip()] = value.strip()
        else:
            report(_finding(Damage.BAD_LINE, file, number, f"{line!r} is not `key=value`"))
    return properties


def _counted_lines(text: str, file: str, report: Report) -> list[tuple[int, str]]:
    """Check the version and the count; return the numbered lines after them."""
    lines = text.splitlines()
    if not lines:
        # Kafka creates the file empty with the partition and writes it with the first entry.
        return []
    version = lines[0].strip()
    if version != str(VERSION):
        reason = f"the version is {version!r}, only {VERSION} can be read"
        report(_finding(Damage.BAD_VERSION, file, 1, reason))
        return []
    body = [(number, line) for number, line in enumerate(lines[2:], start=3) if line.strip()]
    stated = lines[1].strip() if len(lines) > 1 else ""
    if stated != str(len(body)):
        reason = f"the file states {stated or 'no'} lines and has {len(body)}"
        report(_finding(Damage.WRONG_COUNT, file, 2, reason))
    return body


def _finding(damage: Damage, file: str, line: int, text: str, offset: int | None = None) -> Finding:
    return Finding(damage=damage, file=file, position=line, offset=offset, text=text)
