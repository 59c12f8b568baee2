"""When a child that died is started again, and when one that lives counts as hung (decision).

Times are monotonic seconds, given by the caller.
"""

from typing import Final

FIRST_DELAY_S: Final = 0.5
MAX_DELAY_S: Final = 10.0
GOOD_LIFE_S: Final = 30.0
"""Whoever lived so long starts with the first delay again."""
HUNG_AFTER_S: Final = 30.0


class RestartDelay:
    """Doubles the pause before each start, as long as lives are short."""

    def __init__(self) -> None:
        self._next_s = FIRST_DELAY_S
        self._started_s = 0.0

    def on_start(self, now_s: float) -> None:
        """Note that the child was started."""
        self._started_s = now_s

    def on_death(self, now_s: float) -> float:
        """Return how long to wait before starting it again."""
        if now_s - self._started_s >= GOOD_LIFE_S:
            self._next_s = FIRST_DELAY_S
        delay_s = self._next_s
        self._next_s = min(MAX_DELAY_S, 2 * delay_s)
        return delay_s


class Absence:
    """Who was there and is not any more, though its process runs: it hangs.

    Nobody hangs who was not seen since it started: opening its logs may take a broker long.
    """

    def __init__(self) -> None:
        self._seen_s: dict[str, float] = {}
        self._ghosts: set[str] = set()

    def on_seen(self, name: str, now_s: float) -> None:
        """Note that `name` answers, or is listed, unless a life that is over left that behind."""
        if name not in self._ghosts:
            self._seen_s[name] = now_s

    def on_death(self, name: str, *, is_listed: bool) -> None:
        """Forget `name`: its next life begins unseen, also if the last one is listed for now."""
        self._seen_s.pop(name, None)
        if is_listed:
            self._ghosts.add(name)

    def on_unlisted(self, name: str) -> None:
        """Note that `name` is not listed: who is, from now on, lives."""
        self._ghosts.discard(name)

    def forgive_all_but(self, name: str, now_s: float) -> None:
        """Take everybody but `name` for present: nobody can say otherwise."""
        self._seen_s = {
            each: seen_s if each == name else now_s for each, seen_s in self._seen_s.items()
        }

    def hung(self, now_s: float) -> list[str]:
        """Return who was not seen for `HUNG_AFTER_S`."""
        return [name for name, seen_s in self._seen_s.items() if now_s - seen_s >= HUNG_AFTER_S]
