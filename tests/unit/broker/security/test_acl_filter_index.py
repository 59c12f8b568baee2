"""First filter that matches an entry: `broker.security.acl_filter_index`."""

from itertools import product

from broker.security.acl_filter_index import AclFilterIndex
from kafkawire.acl import AclEntry, AclFilter, Operation, Permission

PRINCIPALS = ("User:a", "User:b")
HOSTS = ("*", "10.0.0.1")
OPERATIONS = (Operation.ALL, Operation.READ)
PERMISSIONS = (Permission.ALLOW, Permission.DENY)

ENTRIES = [
    AclEntry(principal=principal, host=host, operation=operation, permission=permission)
    for principal, host, operation, permission in product(
        PRINCIPALS, HOSTS, OPERATIONS, PERMISSIONS
    )
]
FILTERS = [
    AclFilter(principal=principal, host=host, operation=operation, permission=permission)
    for principal, host, operation, permission in product(
        (*PRINCIPALS, None),
        (*HOSTS, None),
        (*OPERATIONS, Operation.ANY),
        (*PERMISSIONS, Permission.ANY),
    )
]


def index_of(filters: list[AclFilter]) -> AclFilterIndex:
    index = AclFilterIndex()
    for place, each in enumerate(filters):
        index.add(place, each)
    return index


def test_the_index_agrees_with_a_search_through_all_filters() -> None:
    for filters in (FILTERS, FILTERS[::-1], FILTERS[::3], [FILTERS[5]] * 2, FILTERS[40:]):
        index = index_of(filters)
        for entry in ENTRIES:
            matching = [place for place, each in enumerate(filters) if each.matches_entry(entry)]
            assert index.first_match(entry) == min(matching, default=None)


def test_an_index_without_filters_is_false() -> None:
    assert not index_of([])
    assert index_of(FILTERS[:1])
