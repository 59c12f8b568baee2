"""Fixtures for pytest (composition), found through the entry point `ottla`.

Every test run in an environment with Ottla loads this module, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster
    from ottla.testing.topics import Topics

BROKERS_KEY: Final = "ottla_brokers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings of `pytest.ini` or `pyproject.toml`."""
    parser.addini(BROKERS_KEY, "Number of brokers in Ottla's clusters.", default="3")


@pytest.fixture(scope="session")
def ottla_settings() -> Mapping[str, str]:
    """Keys of every broker. Override this fixture in a `conftest.py` to set some."""
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_settings: Mapping[str, str]) -> Iterator[Broker]:
    """One broker for all tests of the session, or of each worker of pytest-xdist."""
    from ottla.testing.broker import Broker

    with Broker(ottla_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_cluster(
    ottla_settings: Mapping[str, str], pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """One cluster for all tests of the session. Leave it as it was: all brokers running."""
    from ottla.testing.cluster import Cluster

    with Cluster(_broker_count(pytestconfig), ottla_settings) as cluster:
        yield cluster


@pytest.fixture
def new_ottla_broker(ottla_settings: Mapping[str, str]) -> Iterator[Broker]:
    """A broker for one test, with a network: any fault is allowed."""
    from ottla.testing.broker import Broker

    with Broker(ottla_settings, network=True) as broker:
        yield broker


@pytest.fixture
def new_ottla_cluster(
    ottla_settings: Mapping[str, str], pytestconfig: pytest.Config
) -> Iterator[Cluster]:
    """A cluster for one test, with a network: any fault is allowed."""
    from ottla.testing.cluster import Cluster

    with Cluster(_broker_count(pytestconfig), ottla_settings, network=True) as cluster:
        yield cluster


@pytest.fixture
def ottla_topics(ottla_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Topics]:
    """Topics and names on `ottla_broker` for one test, which deletes them when it ends."""
    with ottla_broker.topics(request.node.name) as topics:
        yield topics


@pytest.fixture
def ottla_topic(ottla_topics: Topics) -> str:
    """The name of a new topic on `ottla_broker`, with one partition."""
    return ottla_topics.create()


def _broker_count(config: pytest.Config) -> int:
    text = config.getini(BROKERS_KEY)
    if not text.isdigit() or int(text) < 1:
        raise pytest.UsageError(f"{BROKERS_KEY} must be a positive number, got {text!r}")
    return int(text)
