"""Renders the templates of the console; everything is escaped unless it is a template (edge)."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from ottla.console.view import text
from ottla.console.view.chart import chart


def link(path: str, **parameters: object) -> str:
    """Return an address with parameters; names may contain any character."""
    return f"{path}?{urlencode({key: str(value) for key, value in parameters.items()})}"


class Renderer:
    """The templates, with the values that all of them use."""

    def __init__(self, shared: Mapping[str, object]) -> None:
        self._environment = Environment(
            loader=PackageLoader("ottla.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals.update(shared, chart=chart, link=link)

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """Return the text of a template."""
        return self._environment.get_template(template).render(values)


FILTERS: Final = {
    "count": text.count_text,
    "size": text.size_text,
    "rate": text.rate_text,
    "byte_rate": text.byte_rate_text,
    "duration": text.duration_text,
    "time": text.time_text,
    "visible": text.visible,
}
