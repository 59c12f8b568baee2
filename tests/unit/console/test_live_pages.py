"""The live pages: their rows, and requests for things that do not exist."""

import pytest

from ottla.console.observation.observation import Observation
from ottla.console.pages.live_pages import LIVE_PAGES, partition_of, require_broker
from ottla.console.pages.page import MissingError, Page
from ottla.console.view.table import TablePage
from tests.unit.console.stand_ins import ORDERS_0, ORDERS_1, group, member, observed, ranges


@pytest.fixture
def observation() -> Observation:
    made = observed()
    made.on_offsets(1_000, ranges((ORDERS_0, 0, 10)))
    made.on_offsets(2_000, ranges((ORDERS_0, 0, 20)))
    made.on_groups(
        2_000,
        {
            "billing": group("billing", {ORDERS_0: 5}, member(ORDERS_1, client="app")),
            "idle": group("idle", {}),
        },
    )
    return made


def page(observation: Observation, path: str, **parameters: str) -> Page:
    return LIVE_PAGES[path](observation, parameters)


def names(made: Page) -> list[str]:
    table = made.values["table"]
    assert isinstance(table, TablePage)
    return [row.name for row in table.rows]


def test_overview_names_the_topics_and_groups_that_need_attention(
    observation: Observation,
) -> None:
    values = page(observation, "/").values
    shown = {key: [row.name for row in values[key]] for key in ("troubled", "busy", "lagging")}  # type: ignore[attr-defined]
    assert shown == {
        "troubled": ["__state", "orders"],
        "busy": ["orders"],
        "lagging": ["billing"],
    }


def test_internal_topics_are_shown_on_request(observation: Observation) -> None:
    assert names(page(observation, "/topics")) == ["orders"]
    assert names(page(observation, "/topics", internal="1")) == ["__state", "orders"]


def test_topic_has_its_partitions_and_readers(observation: Observation) -> None:
    made = page(observation, "/topic", name="orders", filter="1")
    table = made.values["table"]
    assert isinstance(table, TablePage)
    assert [row.number for row in table.rows] == [1]
    assert made.values["reader_count"] == 1


def test_groups_have_pages(observation: Observation) -> None:
    assert names(page(observation, "/groups", filter="BILL")) == ["billing"]
    made = page(observation, "/group", name="billing", filter="app")
    table = made.values["table"]
    assert isinstance(table, TablePage)
    assert [row.partition for row in table.rows] == [ORDERS_1]


def test_broker_has_a_page(observation: Observation) -> None:
    assert page(observation, "/broker", id="3").title == "Broker 3"


@pytest.mark.parametrize(
    ("path", "parameter", "text"),
    [
        ("/broker", "id", "There is no broker x."),
        ("/topic", "name", "There is no topic x."),
        ("/group", "name", "There is no group x."),
    ],
)
def test_missing_things_have_no_page(
    observation: Observation, path: str, parameter: str, text: str
) -> None:
    with pytest.raises(MissingError, match=text):
        page(observation, path, **{parameter: "x"})


def test_partition_is_found_by_its_number(observation: Observation) -> None:
    assert partition_of(observation, "orders", "1") == ORDERS_1
    with pytest.raises(MissingError, match="Topic orders has no partition 2"):
        partition_of(observation, "orders", "2")


def test_a_broker_is_required_once_the_brokers_are_known(observation: Observation) -> None:
    require_broker(Observation(), "77")
    require_broker(observation, "1")
    with pytest.raises(MissingError, match="No broker 77 is online"):
        require_broker(observation, "77")
