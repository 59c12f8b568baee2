"""The page `docs/monitoring.md`, from the metrics in the code (composition)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from monitoring.exposition import Family

INTRODUCTION: Final = """\
A broker with `metrics.listener=HOST:PORT`, and a coordinator started with `--metrics-listen HOST:PORT`, serve
these pages over HTTP. They have no authentication: keep them on the loopback interface or a private network.

| Page | Content |
| --- | --- |
| `/metrics` | metrics for Prometheus |
| `/healthz` | 200 while the process is alive; 503 with the reason once it must be restarted |
| `/readyz` | 200 when the broker runs, is registered with the coordinator and serves every partition whose log it has; otherwise 503 with one line for each trouble |
| `/tasks` | brokers only: periodic tasks with their last and next runs, as JSON |
| `/startup` | brokers only: the steps of the start, as JSON |

A cluster of three brokers on one machine with a coordinator, watched by Prometheus:

```sh
ottla coordinator --listen 127.0.0.1:2181 --metrics-listen 127.0.0.1:7000 &
for n in 1 2 3; do
  ottla broker --override broker.id=$n --override zookeeper.connect=127.0.0.1:2181 \\
    --override listeners=PLAINTEXT://127.0.0.1:$((9091 + n)) --override log.dirs=/tmp/ottla-$n \\
    --override metrics.listener=127.0.0.1:$((9403 + n)) &
done
prometheus --config.file=docs/monitoring/prometheus.yml
```

[prometheus.yml](monitoring/prometheus.yml) is that configuration, [alerts.yaml](monitoring/alerts.yaml) holds alert
rules, and [dashboard.json](monitoring/dashboard.json) is a dashboard to import into Grafana (10 or newer). A test
runs every query of both on a Prometheus that scrapes a real cluster.

## Names

Names and labels are those of stock dashboards: the JMX exporter's with Strimzi's rules for the metrics of Kafka,
Kafka Exporter's for consumer groups, ZooKeeper's own for the coordinator. So dashboards for Kafka work, if they
do not ask for the Java virtual machine. Metrics that Kafka does not have begin with `ottla_`.

- `kafka_server_brokertopicmetrics_*` has a series for each topic, and one without a topic for all of them.
- Quantiles are taken from the last 256 observations. Of Produce and Fetch requests one in sixteen is timed in its
  parts; `ottla_request_duration_seconds` counts all of them, and can be added over brokers.
- Requests are coalesced, so the time of sending is part of `responsequeuetimems`.
- Metrics of partitions come from the broker that holds them; `kafka_cluster_partition_*` and
  `kafka_topic_partition_*` from the leader alone.
- The coordinator of a group shows its lag. It asks the leaders of the group's partitions for their high watermarks
  when the page is requested; a leader that does not answer within a second costs the lags of its partitions.
- One event loop does the work of Kafka's network threads and request handlers: both idle shares have its value.

## Limits

Clients choose the names of topics, groups and client ids. Values of labels are escaped, and cut to 250 characters
with a checksum. A page shows 20,000 partitions, 5,000 groups with 20,000 offsets, and the 500 clients with a quota
that were active last; `ottla_metrics_left_out` counts the rest. A page is made in steps of less than a millisecond
or so each, between which the broker serves requests; 1,000 partitions and 100 groups take some 15 ms in all
([ADR 0094](adr/0094-metrics-are-rendered-in-slices.md)).

## Levels of loggers

`kafka-configs.sh --entity-type broker-loggers` shows and changes the levels of a running broker's loggers, until it
stops. Loggers are named after the modules of the broker, and inherit from the package above them:

```sh
kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --entity-type broker-loggers --entity-name 1 --describe
kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --entity-type broker-loggers --entity-name 1 \\
  --alter --add-config broker.replication=DEBUG
```

"""


def monitoring_page(generated: str) -> str:
    """Return the page; `generated` is the notice that it must not be edited."""
    from broker.status.families import FAMILIES
    from coordination.server.metrics_page import COORDINATOR_FAMILIES
    from monitoring.process_metrics import PROCESS_FAMILIES

    sections = {**FAMILIES, "Coordinator": (*COORDINATOR_FAMILIES, *PROCESS_FAMILIES)}
    text = "".join(f"### {title}\n\n{_table(each)}\n" for title, each in sections.items())
    return f"# Monitoring\n\n{generated}{INTRODUCTION}## Metrics\n\n{text}".rstrip() + "\n"


def _table(families: Iterable["Family"]) -> str:
    lines = ["| Metric | Kind | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for each in families:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        lines.append(f"| `{each.name}` | {each.kind} | {labels} | {each.meaning} |")
    return "\n".join(lines) + "\n"
