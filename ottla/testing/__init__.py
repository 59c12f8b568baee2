"""Brokers and clusters for tests of any program that uses Kafka (composition).

    from ottla.testing import Broker

    with Broker() as broker:
        print(broker.bootstrap)

Servers run in processes of their own: importing this package loads none of their modules. pytest
finds the fixtures of `ottla.testing.plugin` by itself. A name is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.testing.broker import Broker as Broker
    from ottla.testing.cluster import Cluster as Cluster
    from ottla.testing.errors import ServerError as ServerError
    from ottla.testing.errors import StartError as StartError
    from ottla.testing.errors import StateError as StateError
    from ottla.testing.network.links import CLIENTS as CLIENTS
    from ottla.testing.network.links import COORDINATOR as COORDINATOR
    from ottla.testing.topics import Topics as Topics

__all__ = [
    "CLIENTS",
    "COORDINATOR",
    "Broker",
    "Cluster",
    "ServerError",
    "StartError",
    "StateError",
    "Topics",
]

_HOMES: Final = {
    "CLIENTS": "ottla.testing.network.links",
    "COORDINATOR": "ottla.testing.network.links",
    "Broker": "ottla.testing.broker",
    "Cluster": "ottla.testing.cluster",
    "ServerError": "ottla.testing.errors",
    "StartError": "ottla.testing.errors",
    "StateError": "ottla.testing.errors",
    "Topics": "ottla.testing.topics",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
