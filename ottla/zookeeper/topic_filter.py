"""Regular expressions that choose topics, as Java's old consumers read them (decision).

Java's syntax and Python's differ. An expression that they may read differently is refused: members
that match different topics never agree on an assignment.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from ottla.client.errors import ConfigurationError

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
MAX_FILTER_CHARACTERS: Final = 10_000
_UNALIKE: Final = (
    (re.compile(r"\(\?P"), "(?P"),
    (re.compile(r"\(\?\("), "(?("),
    (re.compile(r"&&"), "&&"),
    (re.compile(r"\[[^]]*\["), "a bracket within brackets"),
    # A comma is an alternative by now.
    (re.compile(r"(?<!\\)\{(?!\d+\})"), "a repetition"),
    (re.compile(r"\\[zZvGhHRXQEpPkNUu]"), "an escape"),
)
"""Constructs that only one of the languages has, or that each reads in its own way."""


def filter_text(text: str) -> str:
    """Return the regex of a filter: its commas separate alternatives, and blanks do not count."""
    plain = text.strip().replace(",", "|").replace(" ", "")
    return plain.strip("\"'")


def topic_filter(text: str) -> Callable[[str], bool]:
    """Return a function that answers whether the whole name of a topic matches.

    Raises:
        ConfigurationError: the regex is invalid, or Java may read it differently.
    """
    regex = filter_text(text)
    if len(regex) > MAX_FILTER_CHARACTERS:
        raise ConfigurationError(f"a filter of topics exceeds {MAX_FILTER_CHARACTERS} characters")
    for construct, name in _UNALIKE:
        if construct.search(regex):
            raise ConfigurationError(
                f"the filter {regex!r} contains {name}, which Java and Python read differently"
            )
    try:
        compiled = re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigurationError(f"the filter {regex!r} is not a regex: {error}") from error
    return lambda topic: compiled.fullmatch(topic) is not None


def visible(topics: Iterable[str], *, exclude_internal: bool) -> list[str]:
    """Return the topics that a filter may choose, sorted."""
    return sorted(set(topics) - INTERNAL_TOPICS if exclude_internal else topics)
