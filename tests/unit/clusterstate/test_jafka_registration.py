"""The plan that publishes a broker in Jafka's layout: the broker first, then its topics."""

from clusterstate.jafka_registration import publish
from clusterstate.plans import (
    Answer,
    Children,
    Create,
    Delete,
    Effect,
    ListChildren,
    Node,
    Nodes,
    Op,
    Outcome,
    Outcomes,
    Read,
    Write,
)

SESSION = 7


def run(
    nodes: dict[str, Node], topics: tuple[str, ...], counts: dict[str, int]
) -> list[tuple[Op, ...]]:
    """Return the transactions of the plan, without the creation of parents."""
    plan = publish("/j", 1, b"web:web:1:true", counts, SESSION)
    written: list[tuple[Op, ...]] = []

    def answer(effect: Effect) -> Answer:
        match effect:
            case Read(paths=paths):
                return Nodes(tuple(nodes.get(path) for path in paths))
            case ListChildren(path=path):
                assert path == "/j/brokers/topics"
                return Children(topics)
            case Write(transactions=transactions):
                written.extend(transactions)
                return Outcomes((Outcome((0,)),) * len(transactions))

    try:
        effect = next(plan)
        while True:
            effect = plan.send(answer(effect))
    except StopIteration:
        return [
            each for each in written if not (isinstance(each[0], Create) and not each[0].ephemeral)
        ]


def test_the_broker_is_published_before_its_topics() -> None:
    assert run({}, (), {"t": 3}) == [
        (Create("/j/brokers/ids/1", b"web:web:1:true", ephemeral=True),),
        (Create("/j/brokers/topics/t/1", b"3", ephemeral=True),),
    ]


def test_equal_nodes_of_this_session_stay() -> None:
    nodes = {
        "/j/brokers/ids/1": Node(b"web:web:1:true", 0, 1, SESSION),
        "/j/brokers/topics/t/1": Node(b"3", 0, 1, SESSION),
    }
    assert run(nodes, ("t",), {"t": 3}) == []


def test_nodes_of_an_older_session_and_other_counts_are_replaced() -> None:
    nodes = {
        "/j/brokers/ids/1": Node(b"web:web:1:true", 0, 1, 6),
        "/j/brokers/topics/t/1": Node(b"2", 4, 1, SESSION),
    }
    assert run(nodes, ("t",), {"t": 3}) == [
        (
            Delete("/j/brokers/ids/1", 0),
            Create("/j/brokers/ids/1", b"web:web:1:true", ephemeral=True),
        ),
        (
            Delete("/j/brokers/topics/t/1", 4),
            Create("/j/brokers/topics/t/1", b"3", ephemeral=True),
        ),
    ]


def test_the_node_of_a_deleted_topic_goes_and_then_the_topic() -> None:
    nodes = {
        "/j/brokers/ids/1": Node(b"web:web:1:true", 0, 1, SESSION),
        "/j/brokers/topics/gone/1": Node(b"2", 0, 1, SESSION),
    }
    assert run(nodes, ("gone", "of-others"), {}) == [
        (Delete("/j/brokers/topics/gone/1"),),
        (Delete("/j/brokers/topics/gone"),),
    ]
