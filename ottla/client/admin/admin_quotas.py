"""Describes and changes the quotas of users, clients and addresses (edge), KIP-546."""

from collections.abc import Iterable, Mapping
from math import isfinite

from kafkawire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntry,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)
from ottla.client.admin.admin_request import (
    change,
    error_or_none,
    raise_first,
    raise_refused,
    read,
)
from ottla.client.admin_model import ClientQuota
from ottla.client.argument import require_mapping, require_text
from ottla.client.errors import ConfigurationError
from ottla.client.network.cluster import Cluster

EXACT, DEFAULT, ANY = 0, 1, 2
"""The match types of the protocol."""


async def describe_quotas(
    cluster: Cluster,
    entity: Mapping[str, str | None],
    kinds: Iterable[str],
    timeout_s: float,
    *,
    is_strict: bool,
) -> list[ClientQuota]:
    """Return the quotas of the entities with these names, and any name of `kinds`.

    Raises:
        ConfigurationError: a kind or a name is not text.
    """
    _check(entity)
    components = [
        ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
        for kind, name in entity.items()
    ]
    components += [
        ComponentData(entity_type=kind, match_type=ANY, match=None)
        for kind in kinds
        if kind not in entity
    ]
    request = DescribeClientQuotasRequest(components=components, strict=is_strict)

    async def attempt() -> list[ClientQuota]:
        response = await cluster.request_any(request, DescribeClientQuotasResponse, may_repeat=True)
        raise_first([error_or_none(response.error_code, "quotas", response.error_message)])
        return [
            ClientQuota(
                entity={part.entity_type: part.entity_name for part in entry.entity},
                values={value.key: value.value for value in entry.values},
            )
            for entry in response.entries or ()
        ]

    return await read(cluster, attempt, timeout_s)


async def alter_quotas(
    cluster: Cluster,
    entity: Mapping[str, str | None],
    changes: Mapping[str, float | None],
    timeout_s: float,
) -> None:
    """Set quotas of one entity by key, and remove the ones that are None.

    Raises:
        BrokerError: the entity, a key or a value is refused; nothing was changed.
        ConfigurationError: the entity or the changes are empty, or a name is not text.
    """
    _check(entity)
    require_mapping("changes", changes)
    if not entity or not changes:
        raise ConfigurationError("quotas need an entity, such as {'user': 'alice'}, and a change")
    for key, value in changes.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and isfinite(value)):
            raise ConfigurationError(f"{key} must be a number or None, got {value!r}")
    request = AlterClientQuotasRequest(
        entries=[
            AlteredEntry(
                entity=[
                    EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
                ],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ],
        validate_only=False,
    )

    async def attempt() -> None:
        response = await cluster.request_controller(request, AlterClientQuotasResponse)
        subject = f"quotas of {_shown(entity)}"
        raise_refused(
            [subject], ((subject, it.error_code, it.error_message) for it in response.entries)
        )

    await change(cluster, attempt, timeout_s)


def _check(entity: Mapping[str, str | None]) -> None:
    require_mapping("entity", entity)
    for kind, name in entity.items():
        require_text("an entity's kind", kind)
        if name is not None:
            require_text(f"the name of a {kind}", name)


def _shown(entity: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {'default' if name is None else name}" for kind, name in entity.items()
    )
