"""Declares DescribeClientQuotas and AlterClientQuotas (decision)."""

from collections.abc import Sequence

from kafkawire.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    array,
    field,
    message,
    struct,
)


@struct
class ComponentData:
    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable=0)


@message(versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    """Request for the quotas of users, clients or addresses."""

    components: Sequence[ComponentData] = field(array(ComponentData))
    strict: bool = field(BOOL)


@struct
class EntityData:
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=0)


@struct
class ValueData:
    key: str = field(STRING)
    value: float = field(FLOAT64)


@struct
class DescribedEntry:
    entity: Sequence[EntityData] = field(array(EntityData))
    values: Sequence[ValueData] = field(array(ValueData))


@message(versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse:
    """The quotas of each matching entity."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    entries: Sequence[DescribedEntry] | None = field(array(DescribedEntry), nullable=0)


@struct
class OpData:
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


@struct
class AlteredEntry:
    entity: Sequence[EntityData] = field(array(EntityData))
    ops: Sequence[OpData] = field(array(OpData))


@message(versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    """Request to set or remove single quotas."""

    entries: Sequence[AlteredEntry] = field(array(AlteredEntry))
    validate_only: bool = field(BOOL)


@struct
class AlterationResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    entity: Sequence[EntityData] = field(array(EntityData))


@message(versions=(0, 1), flexible=1)
class AlterClientQuotasResponse:
    """The result for each entity."""

    throttle_time_ms: int = field(INT32)
    entries: Sequence[AlterationResult] = field(array(AlterationResult))
