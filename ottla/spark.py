"""The Spark data sources under the name of the package (composition).

    from ottla.spark import KafkaBatches, KafkaRecords, KafkaSegments

    spark.dataSource.register(KafkaRecords)

Needs the extra `analytics`. A name is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from analytics.data_source import KafkaSegments as KafkaSegments
    from analytics.record_source import KafkaRecords as KafkaRecords
    from analytics.stream_source import KafkaBatches as KafkaBatches

__all__ = ["KafkaBatches", "KafkaRecords", "KafkaSegments"]

_HOMES: Final = {
    "KafkaBatches": "analytics.stream_source",
    "KafkaRecords": "analytics.record_source",
    "KafkaSegments": "analytics.data_source",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "pyarrow"):
            raise
        raise ImportError(
            f"{__name__}.{name} needs Spark: pip install 'ottla[analytics]'", name=error.name
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
