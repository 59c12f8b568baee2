"""The table of commands in `docs/client-table.md`: Kafka's tools and ours (decision).

Each of our commands is run in this order by `test_command_table`. `None` is a function that we do
not offer.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """One function of a tool of Kafka, our command, and a word of its output."""

    kafka: str
    ours: str | None
    word: str = ""
    stdin: str = ""


GROUP: Final = "consume orders --group readers --from beginning --no-follow"
ROWS: Final = (
    Row("kafka-topics.sh --create", "topics create orders --partitions 2", "created orders"),
    Row("kafka-topics.sh --list", "topics list", "orders"),
    Row("kafka-topics.sh --describe", "topics describe orders", "orders"),
    Row("kafka-topics.sh --alter", "topics alter orders --partitions 3"),
    Row("kafka-configs.sh --alter, topics", "configs alter topic orders --config segment.ms=60000"),
    Row("kafka-configs.sh --describe, topics", "configs describe topic orders", "60000"),
    Row(
        "kafka-configs.sh --alter, brokers",
        "configs alter broker default --config log.retention.ms=86400000",
    ),
    Row("kafka-configs.sh --alter, client quotas",
        "quotas alter --user alice --set producer_byte_rate=1000000"),
    Row("kafka-configs.sh --describe, client quotas", "quotas list", "alice"),
    Row("kafka-configs.sh --alter, users of SCRAM", "users create alice"),
    Row("kafka-configs.sh --describe, users of SCRAM", "users list", "alice"),
    Row("kafka-console-producer.sh", "produce orders", "", "one\ntwo\n"),
    Row("kafka-console-consumer.sh", GROUP, "two"),
    Row("kafka-get-offsets.sh", "topics describe orders", "orders"),
    Row("kafka-consumer-groups.sh --list", "groups list", "readers"),
    Row("kafka-consumer-groups.sh --describe", "groups describe readers", "orders"),
    Row("kafka-consumer-groups.sh --describe --members", "groups members readers"),
    Row("kafka-consumer-groups.sh --reset-offsets", "groups reset-offsets readers --to beginning"),
    Row("kafka-consumer-groups.sh --delete-offsets", "groups delete-offsets readers orders:0"),
    Row("kafka-consumer-groups.sh --delete", "groups delete readers"),
    Row("kafka-delete-records.sh", "topics delete-records orders:0 --before 0"),
    Row("kafka-leader-election.sh", "cluster elect"),
    Row("kafka-reassign-partitions.sh --execute", "cluster reassign orders:0=1 --wait"),
    Row("kafka-reassign-partitions.sh --list", "cluster reassignments"),
    Row("kafka-log-dirs.sh", "cluster log-dirs", "replicas"),
    Row("kafka-cluster.sh cluster-id, unregister is of KRaft", "cluster describe", "cluster"),
    Row("kafka-acls.sh --add",
        "acls add --allow-principal User:alice --operation Read --topic orders"),
    Row("kafka-acls.sh --list", "acls list", "alice"),
    Row("kafka-acls.sh --remove",
        "acls remove --allow-principal User:alice --operation Read --topic orders"),
    Row("kafka-transactions.sh list", "transactions list"),
    Row("kafka-transactions.sh describe-producers", "transactions describe-producers orders:0"),
    Row("kafka-transactions.sh find-hanging", "transactions find-hanging"),
    Row("kafka-producer-perf-test.sh", "perf produce orders --records 100"),
    Row("kafka-consumer-perf-test.sh", "perf consume orders --records 100"),
    Row("kafka-e2e-latency.sh", "perf end-to-end orders --records 10"),
    Row("kafka-dump-log.sh", "logs dump LOG/orders-0/00000000000000000000.log"),
    Row("kafka-topics.sh --delete", "topics delete orders"),
    Row("kafka-broker-api-versions.sh", None),
    Row("kafka-delegation-tokens.sh", None),
    Row("kafka-features.sh", None),
    Row("kafka-mirror-maker.sh, connect-mirror-maker.sh", None),
    Row("kafka-streams-application-reset.sh", None),
)  # fmt: skip
BEGIN: Final = "<!-- commands: begin -->\n"
END: Final = "<!-- commands: end -->\n"


def render() -> str:
    """Return the table."""
    rows = [f"| {each.kafka} | {_code(each.ours)} |\n" for each in ROWS]
    return "| Kafka 3.9 | Ottla |\n| --- | --- |\n" + "".join(rows)


def _code(command: str | None) -> str:
    return "not offered" if command is None else f"`ottla {command}`"
