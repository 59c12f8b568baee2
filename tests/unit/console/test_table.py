"""Pages of long tables."""

from ottla.console.view.table import TablePage, table_page

ROWS = [(f"topic-{number:03}", number % 7) for number in range(120)]
COLUMNS = {"name": lambda row: row[0], "size": lambda row: row[1]}


def page(**parameters: str) -> TablePage[tuple[str, int]]:
    return table_page(
        ROWS,
        parameters,
        path="/topics",
        columns=COLUMNS,
        default="name",
        text_of=lambda row: row[0],
    )


def test_first_page_has_the_first_rows_in_the_default_order() -> None:
    first = page()
    assert [row[0] for row in first.rows] == [f"topic-{number:03}" for number in range(50)]
    assert (first.first, first.last, first.total, first.pages) == (1, 50, 120, 3)


def test_last_page_has_the_rest() -> None:
    last = page(page="3")
    assert (last.first, last.last, len(last.rows)) == (101, 120, 20)


def test_page_beyond_the_end_is_the_last_one() -> None:
    assert page(page="99").query.page == 3


def test_invalid_parameters_have_no_effect() -> None:
    for wrong in ("0", "-1", "x", "9" * 99, "²"):
        assert page(page=wrong).query.page == 1
    assert page(sort="password").query.sort == "name"
    assert page(sort="--name").query.sort == "name"


def test_filter_finds_parts_of_names_in_upper_or_lower_case() -> None:
    found = page(filter=" PIC-00 ")
    assert (found.total, found.pages) == (10, 1)
    nothing = page(filter="absent")
    assert (nothing.total, nothing.first, nothing.last, nothing.pages) == (0, 0, 0, 1)


def test_rows_are_sorted_in_both_orders() -> None:
    assert page(sort="size").rows[0] == ("topic-000", 0)
    assert page(sort="-size").rows[0] == ("topic-006", 6)
    assert page(sort="-size").order_of("size") == "descending"
    assert page(sort="size").order_of("size") == "ascending"
    assert page(sort="size").order_of("name") == "none"


def test_links_keep_the_other_parameters() -> None:
    table = page(filter="a&b", name="orders", page="1")
    assert table.link(2) == "/topics?name=orders&filter=a%26b&sort=name&page=2"
    assert table.sort_link("name") == "/topics?name=orders&filter=a%26b&sort=-name"
    assert page(sort="-name").sort_link("name") == "/topics?sort=name"
    assert page(sort="-name").sort_link("size") == "/topics?sort=size"
