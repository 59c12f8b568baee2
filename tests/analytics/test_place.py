"""Places split and join alike for paths and URIs; the options of a URI stay at its end."""

from pathlib import Path

import pytest

from analytics.file_store import list_directory
from analytics.place import (
    child_of,
    join_places,
    name_of,
    parent_of,
    places_in,
    split_store,
    without_end,
)
from logcheck.file_name import beside
from tests.analytics.audited import findings_of
from tests.analytics.log_model import make_log

S3 = "s3://bucket/broker-1"
OPTIONS = "?endpoint_override=http://127.0.0.1:9000&region=eu"


@pytest.mark.parametrize(
    ("place", "name", "parent"),
    [
        ("/var/kafka/orders-0", "orders-0", "/var/kafka"),
        ("/var/kafka/orders-0//", "orders-0", "/var/kafka"),
        ("/orders-0", "orders-0", "/"),
        ("orders-0", "orders-0", "."),
        (f"{S3}/orders-0", "orders-0", S3),
        (f"{S3}/orders-0/{OPTIONS}", "orders-0", S3 + OPTIONS),
    ],
)
def test_place_splits_into_name_and_directory(place: str, name: str, parent: str) -> None:
    assert (name_of(place), parent_of(place)) == (name, parent)
    assert child_of(parent, name) in (without_end(place), f"./{place}")


def test_trailing_slashes_are_removed() -> None:
    assert [without_end(place) for place in ("/", "//", "a/", "s3://", S3 + "/" + OPTIONS)] == [
        *("/", "/", "a", "s3://"),
        S3 + OPTIONS,
    ]


def test_suffix_of_a_segment_file_is_replaced() -> None:
    log = child_of(S3 + OPTIONS, "orders-0/00000000000000000100.log")
    assert beside(log, ".index") == f"{S3}/orders-0/00000000000000000100.index{OPTIONS}"
    assert beside("/a.b/1.log", ".timeindex") == "/a.b/1.timeindex"
    assert beside("/a.b/1.log.swap", ".txnindex") == "/a.b/1.txnindex.swap"


def test_uri_splits_into_store_and_path() -> None:
    assert split_store(S3 + OPTIONS) == ("s3://bucket/" + OPTIONS, "broker-1")
    assert split_store("s3://bucket") == ("s3://bucket/", "")
    assert split_store("file:///var/kafka/") == ("file:///", "var/kafka")


def test_question_mark_in_a_local_path_starts_no_options(tmp_path: Path) -> None:
    make_log().write(tmp_path / "what?now")
    assert findings_of("integrity", tmp_path / "what?now") == []


def test_uri_is_audited_like_a_path(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    (directory / "00000000000000000100.index").unlink()
    [finding] = findings_of("integrity", f"file://{tmp_path}")
    assert finding.file == f"file://{directory}/00000000000000000100.index"
    assert findings_of("integrity", f"file://{directory}") == [finding]


@pytest.mark.parametrize("place", ["nowhere://a/b", "s3://bucket/x?no_such_option=1"])
def test_unknown_store_or_option_raises_os_error(place: str) -> None:
    with pytest.raises(OSError, match=r"nowhere|no_such_option"):
        list_directory(place)


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("", []),
        ("/a,/b,", ["/a", "/b"]),
        ('["/a,b", "/c"]', ["/a,b", "/c"]),
        ("[1],[b]", ["[1]", "[b]"]),
        ("[1]", ["[1]"]),
    ],
)
def test_option_of_a_data_source_lists_places(value: str, places: list[str]) -> None:
    assert [places_in({"path": value}), places_in({"paths": value})] == [places, places]
    assert places_in({"paths": join_places(places)}) == places
