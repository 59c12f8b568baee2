"""The guards of all APIs (composition).

An API without a guard cannot be called while there is an authorizer, unless it is open to all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.handlers.guards import (
    cluster_guards,
    config_guards,
    group_guards,
    producer_guards,
    record_guards,
    token_guards,
    topic_guards,
)
from broker.handlers.guards.guard import Guard, Maker
from broker.handlers.handler_table import Parts
from broker.network.router import Handler
from broker.security.access_control import AccessControl
from kafkawire.apis import ApiKey

GUARDS: Final[Mapping[ApiKey, Maker]] = {
    **cluster_guards.GUARDS,
    **config_guards.GUARDS,
    **group_guards.GUARDS,
    **record_guards.GUARDS,
    **token_guards.GUARDS,
    **topic_guards.GUARDS,
    **producer_guards.GUARDS,
}
OPEN_TO_ALL: Final = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)


def guarded(key: ApiKey, parts: Parts, access: AccessControl, handle: Handler) -> Handler:
    """Return the handler of an API behind its guard."""
    if key in OPEN_TO_ALL:
        return handle
    return GUARDS[key](parts, Guard(access.authorizer, access.audit), handle)
