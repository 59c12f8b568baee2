"""The console of a Kafka 3.9.1 broker, in a real Chromium.

Most tests come from `test_in_chromium`; only the broker differs.
"""

import asyncio
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from ottla import Admin
from ottla.client.admin_model import ResourceType
from tests.interop.console import test_in_chromium as ours
from tests.interop.console.browser import elements
from tests.interop.console.conftest import Shop, open_shop
from tests.interop.console.test_in_chromium import click, problems, shows
from tests.interop.kafka_broker import kafka_on_coordinator

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}

test_each_page_loads = ours.test_each_page_loads_without_an_error
test_lag_is_drawn = ours.test_lag_of_a_group_is_drawn
test_records_are_found = ours.test_records_are_found_and_opened
test_live_tail = ours.test_live_tail_shows_new_records_and_pauses
test_topic_is_created_and_deleted = ours.test_topic_is_created_and_deleted_by_forms
test_no_script_runs = ours.test_no_name_key_value_or_header_runs_a_script


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("kafka")
    with (
        kafka_on_coordinator(directory, SETTINGS) as (broker, _),
        open_shop(broker.address, directory, [broker.log_directory]) as shop,
    ):
        yield shop


def test_segments_of_kafkas_files_are_bars_on_a_line(browser: Chrome, shop: Shop) -> None:
    browser.get(shop.url + "/segments?topic=orders&partition=0")
    assert len(elements(browser, "svg.timeline")) == 1
    assert len(elements(browser, "svg.timeline rect")) > 1
    assert len(elements(browser, "svg.timeline rect.active")) == 1


def test_config_of_a_topic_is_set_by_a_form(browser: Chrome, shop: Shop) -> None:
    async def retention_ms() -> str | None:
        async with Admin(shop.bootstrap) as admin:
            found = await admin.describe_configs(ResourceType.TOPIC, "clickstream")
        return found["retention.ms"].value

    browser.get(shop.url + "/configs?kind=topic&name=clickstream&filter=retention.ms")
    [field] = [each for each in elements(browser, "form") if key_of(each) == "retention.ms"]
    browser.execute_script("arguments[0].closest('details').open = true", field)
    value = field.find_element(By.NAME, "value")
    value.clear()
    value.send_keys("123456")
    field.find_element(By.CSS_SELECTOR, "[value=set]").click()
    click(browser, "#confirm")
    shows(browser, ".note.good", "The config was changed.")
    assert asyncio.run(retention_ms()) == "123456"
    assert problems(browser) == []


def key_of(form: WebElement) -> str:
    """Return the config that a form changes, "" for another form."""
    found = form.find_elements(By.NAME, "key")
    return found[0].get_attribute("value") or "" if found else ""
