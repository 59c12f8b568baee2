"""List the decision modules, which name this kind at the head of their docstring (edge).

`python -m scripts.decision_modules` prints their paths for `coverage report --include`. The tests
must run every line of them.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    "kafkawire",
    "storage",
    "coordination",
    "clusterstate",
    "controller",
    "broker",
    "ottla",
    "analytics",
    "logcheck",
    "monitoring",
    "trust",
    "speedups",
)
_SAYS_SO: Final = re.compile(r"\(decision\b")


def decision_modules() -> list[str]:
    """Return the paths of all decision modules."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return [path.relative_to(ROOT).as_posix() for path in paths if _decides(path)]


def _decides(path: Path) -> bool:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return _SAYS_SO.search(docstring.partition("\n\n")[0]) is not None


if __name__ == "__main__":
    sys.stdout.write(",".join(decision_modules()) + "\n")
