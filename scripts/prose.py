"""Finds sentences and names that break the rules for prose in `CONTRIBUTING.md`.

`python -m scripts.prose [PATH...]` prints `FILE:LINE: TEXT` for each hit in the docstrings,
comments, texts of errors and names of Python and Cython files and in Markdown pages. Everything in
the repository is read if no path is given. The exit code is 1 if there was a hit.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PLACES: Final = (
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
    "tests",
    "benchmarks",
    "scripts",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
# This file names the words; results of benchmarks and generated pages are data.
LEFT_OUT: Final = ("scripts/prose.py", "benchmarks/results")

# A sentence names its actor with a noun: these begin one without.
_HEADLESS: Final = (
    r"(?:^ *|[.:;!?] +|^ *[-*|] +)(?:What(?:ever)?|Who(?:ever|m|se)?|Which|How|Those)\b(?!.*\?)"
)
_VERBS: Final = (
    r"is|was|are|were|has|had|have|it|they|this|that|a|an|the|there|can|may|must|comes?|follows?"
    r"|stands?|belongs?|waits?|remains?|others?|one|no|we|somebody|each|every|\w+(?:s|ed)"
)
# These may be followed by a clause with "who".
_PEOPLE: Final = re.compile(
    r"\b(?:users?|people|person|operators?|developers?|readers?|someone|anyone|strangers|teams?)"
    r" who\b"
)
_CLAUSES: Final = (
    r"\bwhoever\b",
    r"\bwhom(?:ever)?\b",
    rf"\b(?:what|whatever) (?:{_VERBS})\b",
    r"\bwho\b",
    r"\b(?:those|that) which\b",
    r"\bthose (?:that|who|of|in|with|on|for|whose)\b",
)
# The field has a word for each of these, or English a plainer one.
_WORDS: Final = (
    r"\breigns?\b",
    r"\bpictures?\b(?!\]|\()",
    r"\btold\b",
    r"\btells?\b",
    r"\banew\b",
    r"\bso (?:many|long|much|often|far) (?!as\b|that\b)",
    r"\b(?:go|goes|went|going|gone) on\b",
    r"\bof use\b",
    r"\bfor ever\b",
    r"\bcomes? again\b",
    r"\bat fault\b",
    r"\btaken apart\b",
)
_SENTENCE: Final = re.compile("|".join((_HEADLESS, *_CLAUSES)).replace(") (", ") +("), re.MULTILINE)
_WORD: Final = re.compile("|".join(_WORDS).replace(") (", ") +("), re.IGNORECASE)
_NAME_PARTS: Final = frozenset(
    {"reign", "told", "tells", "picture", "who", "whoever", "what", "whatever", "whom", "anew"}
)
# Python's tokenizer takes seven times as long to find the same comments.
_STRING_OR_COMMENT: Final = re.compile(
    r"""(?P<quotes>"{3}|'{3})(?:\\.|(?!(?P=quotes)).)*(?P=quotes)"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)""",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r"`[^`]*`|\"[^\"]*\"")


class Hit(NamedTuple):
    """A place whose wording breaks a rule."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def hits_in(path: Path) -> Iterator[Hit]:
    """Yield the hits in one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _hits_in_python(path, text)
    elif path.suffix in (".pyx", ".pxd", ".sh"):
        for number, line in enumerate(text.splitlines(), 1):
            _, mark, comment = line.partition("#")
            if mark:
                yield from _hits(path, number, comment)
    elif path.suffix == ".md":
        yield from _hits_in_page(path, text)


def _hits_in_python(path: Path, text: str) -> Iterator[Hit]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield from _hits(path, node.lineno, node.value.value)
        elif isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield from _hits(path, part.lineno, part.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.arg):
            name = node.arg if isinstance(node, ast.arg) else node.name
            if _NAME_PARTS & set(name.lower().split("_")):
                yield Hit(path, node.lineno, name)
    yield from _hits_in_comments(path, text)


def _hits_in_comments(path: Path, text: str) -> Iterator[Hit]:
    """Yield the hits in comments; those on adjacent lines are one text."""
    first, last, lines = 0, 0, list[str]()
    number, position = 1, 0
    for match in _STRING_OR_COMMENT.finditer(text):
        if match["comment"] is None:
            continue
        number += text.count("\n", position, match.start())
        position = match.start()
        if number != last + 1:
            yield from _hits(path, first, "\n".join(lines))
            first, lines = number, []
        last = number
        lines.append(match["comment"].lstrip("# "))
    yield from _hits(path, first, "\n".join(lines))


def _hits_in_page(path: Path, text: str) -> Iterator[Hit]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("#"):
            yield from _hits(path, number, line)


def _hits(path: Path, line: int, text: str) -> Iterator[Hit]:
    # Of the same length as the text, so that positions remain valid.
    plain = _QUOTED.sub(_blank, _PEOPLE.sub(_blank, text))
    paragraphs = re.sub(r"(?<!\n)\n(?! *[\n*-])", " ", plain)
    for pattern in (_SENTENCE, _WORD):
        for match in pattern.finditer(paragraphs):
            around = text[max(0, match.start() - 20) : match.end() + 30]
            yield Hit(path, line + plain.count("\n", 0, match.start()), " ".join(around.split()))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "X", match[0])


def files(places: list[str]) -> Iterator[Path]:
    """Yield the files that are read, in order."""
    for place in places:
        path = ROOT / place
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in found:
            name = each.relative_to(ROOT).as_posix()
            if each.suffix in (".py", ".pyx", ".pxd", ".sh", ".md") and not name.startswith(
                LEFT_OUT
            ):
                yield each


def main(places: list[str]) -> int:
    """Print every hit; return the exit code."""
    hits = [hit for path in files(places or list(PLACES)) for hit in hits_in(path)]
    for hit in hits:
        sys.stdout.write(f"{hit._replace(path=hit.path.relative_to(ROOT))}\n")
    return bool(hits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
