"""Unit files of systemd for our daemons (decision).

Source: systemd.service(5), systemd.exec(5); quoting in systemd.syntax(7).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

USER_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%$=:,./+-]+")

TEMPLATE: Final = """\
[Unit]
Description={description}
Documentation=https://pypi.org/project/ottla/
Wants=network-online.target
After=network-online.target{after}

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
User={user}
Restart=on-failure
RestartSec=1
# A daemon whose event loop hangs is killed and restarted.
WatchdogSec=60
# A broker may recover its logs for long before it serves, and hand over partitions for long before
# it stops.
TimeoutStartSec=infinity
TimeoutStopSec=300
# Three files per partition, more for old segments that are read, one per connection.
LimitNOFILE=100000
NoNewPrivileges=true
ProtectSystem=full
# Not PrivateTmp, which deletes /tmp at each stop: the default log directory is there.

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit file: its name and its text."""

    name: str
    text: str


def broker_unit(python: str, properties: str, user: str, *, after_coordinator: bool) -> Unit:
    """Return the unit of a broker with a configuration file.

    Raises:
        ValueError: a name or path cannot stand in a unit file.
    """
    command = [python, "-P", "-m", "ottla.cli", "broker", properties]
    after = " ottla-coordinator.service" if after_coordinator else ""
    return Unit("ottla-broker.service", _text("Ottla broker", command, user, after))


def coordinator_unit(python: str, listen: str, data_dir: str, user: str) -> Unit:
    """Return the unit of a coordinator.

    Raises:
        ValueError: a name or path cannot stand in a unit file.
    """
    options = ["--listen", listen, "--data-dir", data_dir]
    command = [python, "-P", "-m", "ottla.cli", "coordinator", *options]
    return Unit("ottla-coordinator.service", _text("Ottla coordinator", command, user, ""))


def _text(description: str, command: Sequence[str], user: str, after: str) -> str:
    if not USER_NAME.fullmatch(user):
        raise ValueError(f"{user!r} is not the name of a user")
    line = " ".join(quoted(word) for word in command)
    return TEMPLATE.format(description=description, command=line, user=user, after=after)


def quoted(word: str) -> str:
    """Return a word of a command line in a unit file.

    Raises:
        ValueError: it has a control character.
    """
    if not word.isprintable():
        raise ValueError(f"{word!r} has a control character")
    escaped = word.replace("%", "%%").replace("$", "$$")
    if escaped and _PLAIN.fullmatch(escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'
