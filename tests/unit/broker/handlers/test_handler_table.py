"""The table of handlers and the modules that it names: `broker.handlers.handler_table`."""

import pytest

from broker.handlers.guards.guard_table import GUARDS, OPEN_TO_ALL
from broker.handlers.handler_table import MODULES, apis_of
from broker.network.router import advertised
from kafkawire.apis import APIS


@pytest.mark.parametrize("module", sorted(set(MODULES.values())))
def test_a_module_declares_the_apis_that_the_table_lists_for_it(module: str) -> None:
    assert set(apis_of(module)) == {key for key, name in MODULES.items() if name == module}


def test_exactly_the_advertised_apis_are_served() -> None:
    assert advertised(MODULES) == {
        key: api.advertised for key, api in APIS.items() if api.advertised is not None
    }


def test_every_api_has_a_guard_or_is_open_on_purpose() -> None:
    assert GUARDS.keys() | OPEN_TO_ALL >= MODULES.keys()
    assert not GUARDS.keys() & OPEN_TO_ALL
