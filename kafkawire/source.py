"""Source that is generated line by line from declarations, shared by the generators (decision).

The generated functions refer to constants (classes, `struct` methods, helpers) by name, and find
them in `namespace` at run time.
"""

from collections.abc import Mapping
from typing import Final

from kafkawire.declaration import Field, Kind, Layout

LENGTH_CODE: Final = {Kind.STRING: "h", Kind.BYTES: "i", Kind.RECORDS: "i", Kind.ARRAY: "i"}
"""The `struct` format of a length in versions that are not flexible."""


class Source:
    """Generated lines at the current indentation, and unique names."""

    def __init__(self, helpers: Mapping[str, object]) -> None:
        self.namespace: dict[str, object] = dict(helpers)
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def text(self) -> str:
        """Return all lines that were emitted."""
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, title: str) -> object:
        """Run the source and return the function of this name; `title` shows in tracebacks."""
        exec(compile(self.text(), f"<{title}>", "exec"), self.namespace)
        return self.namespace[function]

    def emit(self, line: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + line)

    def open(self, line: str) -> None:
        """Emit a line that ends with a colon; later lines are inside its block."""
        self.emit(line)
        self._depth += 1

    def close(self, levels: int = 1) -> None:
        """End `levels` blocks that `open` began."""
        self._depth -= levels

    def name(self, prefix: str) -> str:
        """Return a unique variable name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, name: str, value: object) -> str:
        """Make `value` available to the source under `name`, and return the name."""
        self.namespace[name] = value
        return name

    def default(self, layout: Layout, each: Field) -> str:
        """Return an expression for the default of a field."""
        if isinstance(each.default, int | float | str | bytes | tuple | None):
            return repr(each.default)
        return self.constant(f"{layout.type.__name__}_{each.name}", each.default)

    def differs(self, layout: Layout, each: Field, place: str) -> str:
        """Return a test of `place`, the value of a field, for a value other than the default."""
        if each.default is None:
            return f"{place} is not None"
        if each.wire.kind is Kind.ARRAY:
            return f"{place} is None or len({place})" if each.nullable is not None else place
        default = self.default(layout, each)
        if each.wire.kind is Kind.STRUCT:
            # Such a field is rarely set, so that its value is nearly always the shared default.
            return f"{place} is not {default} and {place} != {default}"
        return f"{place} != {default}"
