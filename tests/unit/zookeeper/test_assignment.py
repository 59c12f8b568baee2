"""The formulas of the old consumers, and the view that they start from."""

import pytest

from ottla.client.errors import ConfigurationError
from ottla.zookeeper.assignment import Slot, Strategy, assign, by_topic, java_hash, sort_names
from ottla.zookeeper.registration import Layout, Pattern, Registration
from ottla.zookeeper.view import GroupView, everybody, members_of, topics_of, wanted

RANGE = Strategy.RANGE
KAFKA = Layout.KAFKA


def shares(owned: dict[Slot, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for slot, thread in owned.items():
        found.setdefault(thread, []).append(slot.name)
    return found


def test_the_first_threads_get_one_more() -> None:
    names = {"t": [str(each) for each in range(8)]}
    owned = assign(RANGE, names, {"t": ["c-1", "a-0", "b-0"]})
    assert shares(owned) == {"a-0": ["0", "1", "2"], "b-0": ["3", "4", "5"], "c-1": ["6", "7"]}


def test_more_threads_than_partitions_leave_some_without() -> None:
    assert shares(assign(RANGE, {"t": ["0"]}, {"t": ["a-0", "b-0"]})) == {"a-0": ["0"]}


def test_threads_sort_as_text_and_partitions_by_number() -> None:
    threads = [f"c-{number}" for number in range(11)]
    owned = assign(RANGE, {"t": [str(each) for each in range(11)]}, {"t": threads})
    assert owned["t", "2"] == "c-10"  # type: ignore[index]
    assert sort_names(["10", "9", "1"], KAFKA) == ["1", "9", "10"]
    assert sort_names(["1-10", "1-2", "10-0", "1-0"], Layout.JAFKA) == [
        "1-0",
        "1-10",
        "1-2",
        "10-0",
    ]


def test_texts_sort_by_utf_16_units() -> None:
    # U+1F600 has the units D83D DE00, so it sorts before U+FFFD.
    owned = assign(RANGE, {"t": ["0"]}, {"t": ["\ufffd-0", "\U0001f600-0"]})
    assert owned == {Slot("t", "0"): "\U0001f600-0"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("t-0", 112_919), ("hello", 99_162_322), ("polygenelubricants", -(2**31))],
)
def test_hashes_are_those_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_roundrobin_skips_threads_that_do_not_read_the_topic() -> None:
    names = {"t": ["0", "1", "2"], "u": ["0", "1"], "v": ["0"]}
    threads = {"t": ["a-0", "b-0"], "u": ["b-0"]}
    owned = assign(Strategy.ROUNDROBIN, names, threads)
    assert {slot.topic for slot in owned} == {"t", "u"}
    assert {owned[Slot("u", each)] for each in ("0", "1")} == {"b-0"}
    assert owned == {
        Slot("t", "0"): "a-0",
        Slot("t", "1"): "b-0",
        Slot("t", "2"): "a-0",
        Slot("u", "0"): "b-0",
        Slot("u", "1"): "b-0",
    }


def test_nobody_reads_nothing() -> None:
    assert assign(Strategy.ROUNDROBIN, {"t": ["0"]}, {}) == {}
    assert assign(RANGE, {"t": ["0"]}, {}) == {}


def test_slots_are_grouped_by_topic() -> None:
    assert by_topic([Slot("b", "1"), Slot("a", "0"), Slot("b", "0")]) == {
        "a": ["0"],
        "b": ["0", "1"],
    }


def test_a_view_gives_each_member_its_part() -> None:
    members, malformed = members_of(
        {
            "a": b'{"pattern":"static","subscription":{"t":2}}',
            "b": b'{"pattern":"white_list","subscription":{"t.*":1}}',
            "bad": b"t",
        },
        KAFKA,
    )
    assert malformed == ["bad"]
    view = GroupView(members=members, topics=["t", "u"], names={"t": ["0", "1", "2"]})
    assert wanted(view, "a", layout=KAFKA) == {Slot("t", "0"): "a-0", Slot("t", "1"): "a-1"}
    assert wanted(view, "b", layout=KAFKA) == {Slot("t", "2"): "b-0"}
    assert wanted(view, "bad", layout=KAFKA) == {}
    assert len(everybody(view, layout=KAFKA, strategy=RANGE)) == 3


def test_black_lists_choose_the_other_topics() -> None:
    black = Registration({"t.*": 3}, Pattern.BLACK_LIST)
    topics = ["t1", "u", "__consumer_offsets"]
    assert topics_of(black, topics, exclude_internal=True) == {"u": 3}
    assert topics_of(Registration({}), topics, exclude_internal=True) == {}


def test_a_filter_that_java_may_read_differently_stops_the_whole_group() -> None:
    members = {"a": Registration({r"\p{L}": 1}, Pattern.WHITE_LIST)}
    view = GroupView(members=members, topics=["t"], names={"t": ["0"]})
    with pytest.raises(ConfigurationError, match="differently"):
        wanted(view, "a", layout=KAFKA)
