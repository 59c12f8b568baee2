"""Publishes a broker and its topics in the layout of Jafka, below a chroot of its own (decision).

The nodes are ephemeral: one for the broker, and one per topic with the number of partitions whose
preferred leader it is. Beside Kafka's own `partitions` they would keep a topic from being deleted.
"""

from collections.abc import Mapping

from clusterstate.plans import Create, Delete, Node, Op, Plan, list_children, read, write
from clusterstate.znodes import jafka_nodes, paths


def publish(
    chroot: str, broker_id: int, data: bytes, counts: Mapping[str, int], session: int
) -> Plan[None]:
    """Make the nodes of a broker equal to `data` and `counts`, the broker first.

    Nodes of an earlier session, which end with it, are replaced.
    """
    path = f"{chroot}{paths.broker(broker_id)}"
    topics_path = f"{chroot}{paths.TOPICS}"
    parents = [*paths.parents(path), topics_path]
    yield from write([(Create(each, None),) for each in parents])
    [node] = yield from read([path])
    yield from write(_replacing(path, node, data, session))
    names = yield from list_children(topics_path)
    topics = sorted({*names, *counts})
    places = {topic: f"{chroot}{jafka_nodes.topic_count(topic, broker_id)}" for topic in topics}
    nodes = yield from read(list(places.values()))
    yield from write([(Create(f"{topics_path}/{topic}", None),) for topic in sorted(counts)])
    changes: list[tuple[Op, ...]] = []
    for topic, found in zip(topics, nodes, strict=True):
        count = counts.get(topic, 0)
        if count:
            count_data = jafka_nodes.encode_count(count)
            changes += _replacing(places[topic], found, count_data, session)
        elif found is not None:
            # The topic stays while it is on other brokers.
            changes += [(Delete(places[topic]),), (Delete(f"{topics_path}/{topic}"),)]
    yield from write(changes)


def _replacing(path: str, node: Node | None, data: bytes, session: int) -> list[tuple[Op, ...]]:
    creation = Create(path, data, ephemeral=True)
    if node is None:
        return [(creation,)]
    if node.data == data and node.ephemeral_owner == session:
        return []
    return [(Delete(path, node.version), creation)]
