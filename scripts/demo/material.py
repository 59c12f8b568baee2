"""Input data of the demo (edge).

The default is the history of the repository, as one JSON line per line that a commit added or
removed. In a tree without history, such as an unpacked release, it is the documentation.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MAX_LINE_CHARACTERS: Final = 100_000
_COMMIT: Final = "\x01"
_FORMAT: Final = f"{_COMMIT}%h%x00%aI%x00%s"


def write_material(target: Path, root: Path = ROOT) -> str:
    """Write the lines to `target` and return their description.

    `root` is a repository or a plain tree.
    """
    lines = list(_history(root))
    title = "the history of this repository, a JSON line per changed line"
    if not lines:
        lines, title = list(_documentation(root)), "the documentation, a JSON line per line"
    target.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return title


def _history(root: Path) -> Iterator[str]:
    try:
        log = subprocess.run(
            ["git", "log", "--reverse", "--patch", "--no-color", f"--format={_FORMAT}"],
            cwd=root,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return
    text = log.stdout.decode("utf-8", errors="replace")
    # The mark of a commit is unambiguous at the start of a line: lines of a patch begin with '+',
    # '-', ' ' or a word of the format.
    for commit in ("\n" + text).split("\n" + _COMMIT)[1:]:
        head, _, patch = commit.partition("\n")
        number, date, subject = head.split("\0")
        about = {"commit": number, "date": date, "subject": subject}
        for path, change in _changes(patch):
            yield json.dumps({**about, "path": path, "change": change}, ensure_ascii=False)


def _changes(patch: str) -> Iterator[tuple[str, str]]:
    """Yield (path, line) of each added or removed line, cut to `MAX_LINE_CHARACTERS`."""
    path, is_header = "", True
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            path, is_header = line.rpartition(" b/")[2], True
        elif line.startswith("@@"):
            is_header = False
        elif not is_header and line.startswith(("+", "-")):
            yield path, line[:MAX_LINE_CHARACTERS]


def _documentation(root: Path) -> Iterator[str]:
    for page in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            yield json.dumps(
                {"file": str(page.relative_to(root)), "line": number, "text": text},
                ensure_ascii=False,
            )
