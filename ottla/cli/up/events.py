"""Events of a supervisor (decision): one value per event, as a sentence and as JSON."""

import json
import shlex
import signal
from dataclasses import asdict, dataclass
from typing import TypeAlias

from ottla.cli.text import JsonValue


@dataclass(frozen=True, slots=True)
class Ready:
    """All brokers have registered and know each other."""

    brokers: tuple[str, ...]
    coordinator: str
    seconds: float

    def __str__(self) -> str:
        return f"ready {','.join(self.brokers)}"


@dataclass(frozen=True, slots=True)
class Secured:
    """A secured cluster is ready: the files with the connections of its users."""

    client: str
    admin: str

    def __str__(self) -> str:
        return (
            f"clients need {self.client}, administrators {self.admin}\n"
            f"try: ottla topics list --command-config {shlex.quote(self.client)}"
        )


@dataclass(frozen=True, slots=True)
class Joinable:
    """Other machines can join the cluster with copies of some files."""

    coordinator: str
    files: tuple[str, ...]
    is_secured: bool

    def __str__(self) -> str:
        folder = "DIR/security" if self.is_secured else "DIR"
        option = " --secure" if self.is_secured else ""
        return (
            f"other machines need {' and '.join(self.files)} in {folder}\n"
            f"then: ottla up{option} --dir DIR --join {self.coordinator}"
        )


@dataclass(frozen=True, slots=True)
class ConsoleStarted:
    """The console answers at an address, which has a token if the cluster is secured."""

    url: str

    def __str__(self) -> str:
        return f"console {self.url}"


@dataclass(frozen=True, slots=True)
class NoConsole:
    """The cluster has no console."""

    reason: str

    def __str__(self) -> str:
        return f"no console: {self.reason}"


@dataclass(frozen=True, slots=True)
class Renewed:
    """A start has renewed a certificate that would end soon, or is for other hosts."""

    path: str
    is_authority: bool

    def __str__(self) -> str:
        after = ": give it to clients that have a copy" if self.is_authority else ""
        return f"renewed {self.path}{after}"


@dataclass(frozen=True, slots=True)
class Died:
    """A child exited unexpectedly. `restart_s` is the delay of its restart; None: no restart."""

    name: str
    exit_code: int
    is_session_closed: bool
    restart_s: float | None

    def __str__(self) -> str:
        after = (
            "it stays down" if self.restart_s is None else f"it restarts in {self.restart_s:g} s"
        )
        return f"{self.name} {outcome(self.exit_code)}; {after}"


@dataclass(frozen=True, slots=True)
class Started:
    """A child was restarted."""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} restarted (process {self.pid})"


@dataclass(frozen=True, slots=True)
class NotRestarted:
    """A dead child cannot be restarted now; the next attempt follows after `retry_s`."""

    name: str
    reason: str
    retry_s: float

    def __str__(self) -> str:
        return f"{self.name} cannot be restarted: {self.reason}; next attempt in {self.retry_s:g} s"


@dataclass(frozen=True, slots=True)
class Hung:
    """A child runs but has lost its session for long; the supervisor kills it."""

    name: str

    def __str__(self) -> str:
        return f"{self.name} hangs: its session ended and it has not registered again; killing it"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A child exited after a request to stop, or was killed after the timeout."""

    name: str
    exit_code: int

    def __str__(self) -> str:
        # SIGTERM kills a child that has not installed its signal handler yet: also a normal stop.
        is_stopped = self.exit_code == -signal.SIGTERM
        return f"{self.name} {outcome(0 if is_stopped else self.exit_code)}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Earlier reports were not written, because their reader had stopped reading."""

    count: int

    def __str__(self) -> str:
        return f"reports left out while nothing read them: {self.count}"


Event: TypeAlias = (
    Ready
    | Secured
    | Joinable
    | ConsoleStarted
    | NoConsole
    | Renewed
    | Died
    | Started
    | NotRestarted
    | Hung
    | Stopped
    | LeftOut
)


def to_json(event: Event) -> JsonValue:
    """Return the event as an object with its type in the field `event`."""
    fields: dict[str, JsonValue] = {"event": type(event).__name__.lower()}
    fields.update({key: _json(value) for key, value in asdict(event).items()})
    return fields


def _json(value: object) -> JsonValue:
    if isinstance(value, tuple):
        return [str(each) for each in value]
    assert value is None or isinstance(value, str | int | float)
    return value


def outcome(exit_code: int) -> str:
    """Return the meaning of an exit code: `stopped`, `died (SIGKILL)`, `died (exit code 1)`."""
    if exit_code == 0:
        return "stopped"
    if exit_code < 0:
        return f"died ({_signal_name(-exit_code)})"
    return f"died (exit code {exit_code})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most of the real-time signals have only a number.
        return f"signal {number}"


def reason_in(line: str) -> str:
    """Return the reason of an exit from a child's last log line: JSON, or `program: reason`."""
    try:
        fields = json.loads(line)
    except ValueError:
        program, separator, reason = line.partition(": ")
        return reason if separator and " " not in program.removeprefix("ottla ") else line
    if isinstance(fields, dict):
        return str(fields.get("error") or fields.get("event") or line)
    return line
