"""S10 without a reference: delete horizons, and tombstones kept for too long (decision).

The first cleaning gives a batch with tombstones its delete horizon. A later cleaning rewrites the
cleaned part from its beginning, and the horizons that it sets prove its time: they are that time
plus `delete.retention.ms`. It may have ended early: a horizon proves nothing about later segments.
But a horizon does not say which `delete.retention.ms` made it, and the value of a topic may change:
all findings about times are warnings. Nothing cleans a quiet log, so that the age alone of a
tombstone is a note. Only a reference shows tombstones that are gone too early: see `preservation`.

Source: KIP-534.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.log_view import LogView, RunObserver
from logcheck.rule import Rules

# Enough for a chart of their ages; a summary must stay small.
_MAX_SHOWN: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A batch of tombstones with a delete horizon."""

    file: str
    position: int
    offset: int
    horizon_ms: int


class TombstoneCheck(RunObserver):
    """An observer that keeps the delete horizons of the cleaned part."""

    def __init__(self, cleaned_until: int, rules: Rules, report: Report) -> None:
        self._cleaned_until = cleaned_until
        self._rules = rules
        self._report = report
        self._finder = Finder(Check.TOMBSTONES, report)
        self._waiting: list[_Waiting] = []
        self._unmarked_count = self._missed_count = 0
        """Batches with tombstones and without a horizon, and those below a batch that has one."""
        self._first_unmarked: Finding | None = None
        self._cleanings_ms: dict[str, int] = {}
        """By file: the last cleaning that its horizons prove."""
        self._count = 0
        self._horizons_ms: list[int] = []

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        for batch in batches:
            if batch.header.last_offset >= self._cleaned_until:
                return
            self._add(batch)

    def _add(self, batch: SoundBatch) -> None:
        header = batch.header
        self._count += batch.survey.tombstones
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None:
            if batch.survey.tombstones and not header.is_control:
                self._note_unmarked(batch)
            return
        self._missed_count = self._unmarked_count
        self._check_use(batch)
        cleaning_ms = horizon_ms - self._rules.delete_retention_ms
        self._cleanings_ms[batch.file] = max(self._cleanings_ms.get(batch.file, -1), cleaning_ms)
        if horizon_ms > self._rules.now_ms + self._rules.delete_retention_ms:
            latest = self._rules.now_ms + self._rules.delete_retention_ms
            place = batch.file, batch.position, header.base_offset
            expected, found = f"at most {latest} ms", f"{horizon_ms} ms"
            self._find(Damage.HORIZON_IN_FUTURE, *place, expected, found)
        elif batch.survey.tombstones:
            self._horizons_ms.append(horizon_ms)
            place = batch.file, batch.position, header.base_offset
            self._waiting.append(_Waiting(*place, horizon_ms))

    def _note_unmarked(self, batch: SoundBatch) -> None:
        """Note a batch as Kafka up to 3.0 cleans it; a later cleaner gives horizons to all."""
        self._unmarked_count += 1
        if self._first_unmarked is None:
            self._first_unmarked = Finding(
                check=Check.TOMBSTONES,
                damage=Damage.BAD_ATTRIBUTES,
                file=batch.file,
                position=batch.position,
                offset=batch.header.base_offset,
                expected="a delete horizon in a batch of tombstones, as in later batches",
                found="none",
                severity=Severity.WARNING,
            )

    def _check_use(self, batch: SoundBatch) -> None:
        """Report a horizon in a batch that has no tombstone and cannot have had one."""
        header = batch.header
        is_whole = header.record_count > header.last_offset_delta
        if is_whole and not (batch.survey.tombstones or header.is_control):
            place = batch.file, batch.position, header.base_offset
            expected = "no delete horizon in a batch that never had a tombstone"
            found = f"{header.delete_horizon_ms} ms"
            self._finder.find(Damage.BAD_ATTRIBUTES, *place, expected, found)

    def conclude(self, _log: LogView) -> dict[str, Any]:
        """Report the tombstones without a horizon, or whose horizon a cleaning has passed."""
        if self._first_unmarked is not None and self._missed_count:
            self._report(self._first_unmarked.counted(self._missed_count - 1))
        cleanings_ms, last_ms = {}, -1
        for file, cleaning_ms in reversed(self._cleanings_ms.items()):
            cleanings_ms[file] = last_ms = max(last_ms, cleaning_ms)
        # Without retention, a cleaning sets horizons of its own time.
        margin_ms = int(self._rules.delete_retention_ms == 0)
        for waiting in self._waiting:
            last_ms = cleanings_ms[waiting.file]
            age_ms = self._rules.now_ms - waiting.horizon_ms
            if waiting.horizon_ms + margin_ms <= last_ms:
                found = f"still present after a cleaning at {last_ms} ms"
                self._find_late(waiting, found, Severity.WARNING)
            elif age_ms > self._rules.tombstone_grace_ms:
                # No cleaner reads a log again without new records.
                found = f"still present {age_ms} ms later"
                self._find_late(waiting, found, Severity.NOTE)
        return {
            "cleaned_tombstones": self._count,
            "horizons_ms": self._horizons_ms[:_MAX_SHOWN],
            "now_ms": self._rules.now_ms,
        }

    def _find_late(self, waiting: _Waiting, found: str, severity: Severity) -> None:
        place = waiting.file, waiting.position, waiting.offset
        expected = f"removed by the first cleaning after {waiting.horizon_ms} ms"
        self._find(Damage.TOMBSTONE_KEPT_LATE, *place, expected, found, severity)

    def _find(
        self,
        damage: Damage,
        file: str,
        position: int,
        offset: int,
        expected: str,
        found: str,
        severity: Severity = Severity.WARNING,
    ) -> None:
        self._finder.find(damage, file, position, offset, expected, found, severity)
