"""Each cell of the table of clients in `docs/client-table.md` is run again."""

from collections.abc import Iterator

import pytest

from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.clients.features.features import FEATURES
from tests.interop.clients.features.table import CLIENTS, JAVA, SETTINGS, outcome, written_cells
from tests.interop.kafka_broker import kafka_jars_or_skip


@pytest.fixture(scope="module")
def table_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("table"), SETTINGS)
    broker.wait_for_event(READY_EVENT)
    yield broker
    broker.kill()


def test_page_has_a_cell_for_every_client_and_feature() -> None:
    assert list(written_cells()) == [
        (client, feature) for feature in FEATURES for client in CLIENTS
    ]


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.filterwarnings("ignore")
async def test_cell_says_the_outcome_of_a_run(
    table_broker: BrokerProcess, client: str, feature: str
) -> None:
    if client == JAVA:
        kafka_jars_or_skip()
    written = written_cells()[client, feature]
    assert await outcome(client, feature, table_broker.bootstrap) == written
