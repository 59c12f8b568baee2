"""Restart delays of dead children, and detection of hung ones (decision).

Times are monotonic seconds, passed in by the caller.
"""

from typing import Final

FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 10.0
STABLE_AFTER_S: Final = 30.0
"""Running time after which the delay starts at `FIRST_DELAY_S` again."""
HUNG_AFTER_S: Final = 30.0
MAX_GAP_S: Final = 10.0
"""Time between two checks from which on the supervisor itself has not run, as after Ctrl-Z."""


class RestartDelay:
    """Back-off before a restart, doubled after each run shorter than `STABLE_AFTER_S`."""

    def __init__(self) -> None:
        self._next_s = FIRST_DELAY_S
        self._started_s = 0.0

    def on_start(self, now_s: float) -> None:
        """Record the start of the child."""
        self._started_s = now_s

    def on_death(self, now_s: float) -> float:
        """Return the delay in seconds before the child's restart."""
        if now_s - self._started_s >= STABLE_AFTER_S:
            self._next_s = FIRST_DELAY_S
        delay_s = self._next_s
        self._next_s = min(MAX_DELAY_S, 2 * delay_s)
        return delay_s


class Absence:
    """Times at which children were last seen; a running child that vanishes for long is hung.

    A child counts as hung only after it was seen since its start, because a broker may take long to
    open its logs.
    """

    def __init__(self) -> None:
        self._seen_s: dict[str, float] = {}
        self._checked_s: float | None = None
        # Children whose listed registration belongs to their previous incarnation.
        self._stale: set[str] = set()

    def on_check(self, now_s: float) -> None:
        """Record the begin of a check; after a gap every child counts as seen.

        A supervisor that was stopped has lost its own session meanwhile.
        """
        if self._checked_s is not None and now_s - self._checked_s >= MAX_GAP_S:
            self._seen_s = dict.fromkeys(self._seen_s, now_s)
        self._checked_s = now_s

    def on_seen(self, name: str, now_s: float) -> None:
        """Record that `name` responds or is listed, unless the listing is stale."""
        if name not in self._stale:
            self._seen_s[name] = now_s

    def on_death(self, name: str, *, is_listed: bool) -> None:
        """Forget `name`; a registration that is still listed is stale from now on."""
        self._seen_s.pop(name, None)
        if is_listed:
            self._stale.add(name)

    def on_unlisted(self, name: str) -> None:
        """Record that `name` is not listed, so that its next listing is a new registration."""
        self._stale.discard(name)

    def excuse_all_but(self, name: str, now_s: float) -> None:
        """Count every child but `name` as seen, for want of evidence to the contrary."""
        self._seen_s = {
            each: seen_s if each == name else now_s for each, seen_s in self._seen_s.items()
        }

    def hung(self, now_s: float) -> list[str]:
        """Return the children last seen at least `HUNG_AFTER_S` ago."""
        return [name for name, seen_s in self._seen_s.items() if now_s - seen_s >= HUNG_AFTER_S]
