"""The table of clients in `docs/client-table.md`, and its cells (edge).

`python -m tests.interop.clients.features.table` runs every cell and writes the table.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import itertools
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.clients.features import with_java
from tests.interop.clients.features.features import FEATURES, Client, NotOffered
from tests.interop.clients.features.with_aiokafka import Aiokafka
from tests.interop.clients.features.with_confluent import Confluent
from tests.interop.clients.features.with_kafka_python import KafkaPython
from tests.interop.clients.features.with_ottla import Ottla

PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "client-table.md"
BEGIN: Final = "<!-- clients: begin -->\n"
END: Final = "<!-- clients: end -->\n"
TIMEOUT_S: Final = 300.0
JAVA: Final = "Java"
CLIENTS: Final[Mapping[str, Callable[[str], Client]]] = {
    "ottla": Ottla,
    "confluent-kafka": Confluent,
    "aiokafka": Aiokafka,
    "kafka-python": KafkaPython,
    JAVA: with_java.Java,
}
PASSED: Final = "passed"
NOT_OFFERED: Final = "not offered"
FAILED: Final = "failed"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_numbers = itertools.count()


async def outcome(client: str, feature: str, address: str) -> str:
    """Return the cell of a client and a feature: its run at the broker at `address`."""
    topic = f"cell-{next(_numbers)}"
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await FEATURES[feature](CLIENTS[client](address), address, topic)
    except NotOffered:
        return NOT_OFFERED
    except Exception:
        traceback.print_exc()
        return FAILED
    return PASSED


def render(cells: Mapping[tuple[str, str], str]) -> str:
    """Return the table with the cells by client and feature."""
    head = " | ".join(["Feature", "ottla", *(map(_with_version, list(CLIENTS)[1:]))])
    rows = [f"| {head} |\n|{' --- |' * (len(CLIENTS) + 1)}\n"]
    for feature in FEATURES:
        row = " | ".join([feature, *(cells[client, feature] for client in CLIENTS)])
        rows.append(f"| {row} |\n")
    return "".join(rows)


def _with_version(client: str) -> str:
    is_java = client == JAVA
    return f"{client} {with_java.version() if is_java else importlib.metadata.version(client)}"


def written_cells() -> dict[tuple[str, str], str]:
    """Return the cells of the page."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = rest.partition(END)[0].strip().splitlines()[2:]
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        feature, *cells = (each.strip() for each in line.strip("|").split("|"))
        found |= {(client, feature): cell for client, cell in zip(CLIENTS, cells, strict=True)}
    return found


def write() -> None:
    """Run every cell and write the table."""
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory), SETTINGS)
        try:
            broker.wait_for_event(READY_EVENT)
            cells = {
                (client, feature): asyncio.run(outcome(client, feature, broker.bootstrap))
                for client in CLIENTS
                for feature in FEATURES
            }
        finally:
            broker.kill()
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    page = head + BEGIN + "\n" + render(cells) + "\n" + END + rest.partition(END)[2]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write()
