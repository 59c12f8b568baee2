"""Reads the checkpoint files. Decision: no I/O.

offset checkpoints:       0, the number of lines, then `topic partition offset` per line
leader-epoch-checkpoint:  0, the number of lines, then `epoch start-offset` per line
*.properties, *.metadata: `key=value` or `key: value` per line, `#` begins a comment
"""

from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.logs.finding import Damage, Finding, Report

VERSION: Final = 0


def read_offset_checkpoint(text: str, file: str, report: Report) -> dict[TopicPartition, int]:
    """Return the offset of each partition; report what does not follow the format."""
    offsets: dict[TopicPartition, int] = {}
    for number, line in _counted_lines(text, file, report):
        fields = line.split(" ")
        if len(fields) != 3 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            report(_finding(Damage.BAD_LINE, file, number, f"{line!r} is no `topic partition n`"))
            continue
        partition = TopicPartition(fields[0], int(fields[1]))
        if partition in offsets:
            report(_finding(Damage.DUPLICATE_LINE, file, number, f"{partition} stands twice"))
        offsets[partition] = int(fields[2])
    return offsets


def read_epoch_checkpoint(text: str, file: str, report: Report) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs; report those that do not grow."""
    epochs: list[tuple[int, int]] = []
    for number, line in _counted_lines(text, file, report):
        fields = line.split(" ")
        if len(fields) != 2 or not all(field.isdecimal() for field in fields):
            report(_finding(Damage.BAD_LINE, file, number, f"{line!r} is no `epoch offset`"))
            continue
        epoch, offset = int(fields[0]), int(fields[1])
        if epochs and (epoch <= epochs[-1][0] or offset < epochs[-1][1]):
            what = f"epoch {epoch} from {offset} follows epoch {epochs[-1][0]} from {epochs[-1][1]}"
            report(_finding(Damage.NOT_INCREASING, file, number, what, offset))
        epochs.append((epoch, offset))
    return epochs


def read_properties(text: str, file: str, report: Report) -> dict[str, str]:
    """Return the keys and values; report lines that are neither that nor a comment."""
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        separator = "=" if "=" in line else ":"
        key, found, value = line.partition(separator)
        if found:
            properties[key.strip()] = value.strip()
        else:
            report(_finding(Damage.BAD_LINE, file, number, f"{line!r} is no `key=value`"))
    return properties


def _counted_lines(text: str, file: str, report: Report) -> list[tuple[int, str]]:
    """Return the numbered lines behind the version and the count, both checked."""
    lines = text.splitlines()
    if not lines:
        # Kafka makes the file when it makes the partition, and writes it when there is something.
        return []
    version = lines[0].strip()
    if version != str(VERSION):
        what = f"the version is {version!r}, only {VERSION} can be read"
        report(_finding(Damage.BAD_VERSION, file, 1, what))
        return []
    body = [(number, line) for number, line in enumerate(lines[2:], start=3) if line.strip()]
    stated = lines[1].strip() if len(lines) > 1 else ""
    if stated != str(len(body)):
        what = f"the file states {stated or 'no'} lines and has {len(body)}"
        report(_finding(Damage.WRONG_COUNT, file, 2, what))
    return body


def _finding(damage: Damage, file: str, line: int, text: str, offset: int | None = None) -> Finding:
    return Finding(damage=damage, file=file, position=line, offset=offset, text=text)
