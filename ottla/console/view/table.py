"""One page of a long table: filter, order and position, as a request names them (decision).

The server selects the rows, so that a browser handles a page of them, however long the table is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

Row = TypeVar("Row")
SortKey: TypeAlias = Callable[[Row], str | float]

ROWS_PER_PAGE: Final = 50
MAX_FILTER_CHARACTERS: Final = 250
MAX_PAGE: Final = 100_000
_PARAMETERS: Final = ("filter", "sort", "page")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """The part of a table to show. `page` begins at 1."""

    text: str = ""
    sort: str
    is_descending: bool = False
    page: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePage(Generic[Row]):
    """The rows of one page, and the links to the others."""

    rows: Sequence[Row]
    query: TableQuery
    total: int
    first: int
    """Number of the first row, from 1; 0 without rows."""
    pages: int
    path: str
    kept: Mapping[str, str]
    """Other parameters of the page."""

    @property
    def last(self) -> int:
        """Number of the last row (inclusive)."""
        return self.first + len(self.rows) - 1 if self.rows else 0

    def link(self, page: int) -> str:
        """Return the address of another page of the table."""
        return self._address(replace(self.query, page=page))

    def sort_link(self, column: str) -> str:
        """Return the address of the table in the order of `column`, or the reverse order."""
        is_same = column == self.query.sort
        reverse = not self.query.is_descending if is_same else False
        return self._address(replace(self.query, sort=column, is_descending=reverse, page=1))

    def order_of(self, column: str) -> str:
        """Return the order of a column in the words of ARIA."""
        if column != self.query.sort:
            return "none"
        return "descending" if self.query.is_descending else "ascending"

    def _address(self, query: TableQuery) -> str:
        parameters = dict(self.kept)
        if query.text:
            parameters["filter"] = query.text
        parameters["sort"] = f"-{query.sort}" if query.is_descending else query.sort
        if query.page > 1:
            parameters["page"] = str(query.page)
        return f"{self.path}?{urlencode(parameters)}"


def parse_table_query(
    parameters: Mapping[str, str], columns: Mapping[str, SortKey[Row]], default: str
) -> TableQuery:
    """Return the request for a part of a table; invalid parameters have no effect."""
    sort = parameters.get("sort", default)
    if sort.removeprefix("-") not in columns:
        sort = default
    number = parameters.get("page", "")
    is_number = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_PAGE))
    return TableQuery(
        text=parameters.get("filter", "")[:MAX_FILTER_CHARACTERS].strip(),
        sort=sort.removeprefix("-"),
        is_descending=sort.startswith("-"),
        page=max(1, int(number)) if is_number else 1,
    )


def table_page(
    rows: Sequence[Row],
    parameters: Mapping[str, str],
    *,
    path: str,
    columns: Mapping[str, SortKey[Row]],
    default: str,
    text_of: Callable[[Row], str],
    size: int = ROWS_PER_PAGE,
) -> TablePage[Row]:
    """Return the page of `rows` that the parameters of a request name.

    Rows match if `text_of` contains the filter, in upper or lower case. Without a parameter `sort`
    the order is `default`: a column, with a leading minus for the reverse order.
    """
    query = parse_table_query(parameters, columns, default)
    wanted = query.text.lower()
    found = [row for row in rows if wanted in text_of(row).lower()] if wanted else list(rows)
    found.sort(key=columns[query.sort], reverse=query.is_descending)
    pages = max(1, -(-len(found) // size))
    query = replace(query, page=min(query.page, pages))
    start = (query.page - 1) * size
    shown = found[start : start + size]
    return TablePage(
        rows=shown,
        query=query,
        total=len(found),
        first=start + 1 if shown else 0,
        pages=pages,
        path=path,
        kept={key: value for key, value in parameters.items() if key not in _PARAMETERS},
    )
