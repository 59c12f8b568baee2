"""One page: its title, its place in the navigation, and the values of its template (decision)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.console.observation.observation import Observation


class MissingError(Exception):
    """There is no topic, group or broker of this name; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a page. A live page gets a new content with each sample."""

    title: str
    section: str
    """The entry of the navigation to which the page belongs."""
    template: str
    values: Mapping[str, object]


PageFunction: TypeAlias = Callable[[Observation, Mapping[str, str]], Page]
"""Makes a page from the samples and the parameters of the request.

It raises `MissingError` if the request names a thing that does not exist.
"""
