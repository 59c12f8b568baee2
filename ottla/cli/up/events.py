"""What a supervisor tells (decision): one value per event, as a sentence and as JSON."""

import json
import signal
from dataclasses import asdict, dataclass
from typing import TypeAlias

from ottla.cli.text import JsonValue


@dataclass(frozen=True, slots=True)
class Ready:
    """All brokers are registered and know each other."""

    brokers: tuple[str, ...]
    coordinator: str
    seconds: float

    def __str__(self) -> str:
        return f"ready {','.join(self.brokers)}"


@dataclass(frozen=True, slots=True)
class Died:
    """A child ended without being asked to. `restart_s` is None when it is left dead."""

    name: str
    exit_code: int
    is_session_closed: bool
    restart_s: float | None

    def __str__(self) -> str:
        after = (
            "it stays down"
            if self.restart_s is None
            else f"it starts again in {self.restart_s:g} s"
        )
        return f"{self.name} {how_it_ended(self.exit_code)}; {after}"


@dataclass(frozen=True, slots=True)
class Started:
    """A child runs again."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} runs again (process {self.pid})"


@dataclass(frozen=True, slots=True)
class Hung:
    """A child runs but takes no part any more: it is killed."""

    name: str

    def __str__(self) -> str:
        return (
            f"{self.name} hangs: its session ended long ago and it does not come back; killing it"
        )


@dataclass(frozen=True, slots=True)
class Stopped:
    """A child stopped when asked to, or had to be killed."""

    name: str
    exit_code: int

    def __str__(self) -> str:
        # One that was asked while it still loaded its code has no other way to stop.
        is_stopped = self.exit_code == -signal.SIGTERM
        return f"{self.name} {how_it_ended(0 if is_stopped else self.exit_code)}"


Event: TypeAlias = Ready | Died | Started | Hung | Stopped


def to_json(event: Event) -> JsonValue:
    """Return the event as an object; `event` says which it is."""
    fields: dict[str, JsonValue] = {"event": type(event).__name__.lower()}
    fields.update({key: _json(value) for key, value in asdict(event).items()})
    return fields


def _json(value: object) -> JsonValue:
    if isinstance(value, tuple):
        return [str(each) for each in value]
    assert value is None or isinstance(value, str | int | float)
    return value


def how_it_ended(exit_code: int) -> str:
    """Return what an exit code means: `stopped`, `died (SIGKILL)`, `died (exit code 1)`."""
    if exit_code == 0:
        return "stopped"
    if exit_code < 0:
        return f"died ({signal.Signals(-exit_code).name})"
    return f"died (exit code {exit_code})"


def reason_in(line: str) -> str:
    """Return why a child ended, from the last line that it wrote: JSON, or `program: reason`."""
    try:
        fields = json.loads(line)
    except ValueError:
        program, separator, reason = line.partition(": ")
        return reason if separator and " " not in program.removeprefix("ottla ") else line
    if isinstance(fields, dict):
        return str(fields.get("error") or fields.get("event") or line)
    return line
