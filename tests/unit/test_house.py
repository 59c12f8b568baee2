"""The project's rules that no other tool checks."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.broker_config import DECLARED_KEYS
from scripts.decision_modules import PACKAGES, decision_modules
from tests.unit.sources import forget_trees, nodes_of, tree_of

__all__ = ["forget_trees"]
ROOT = Path(__file__).resolve().parents[2]
SERVER_PACKAGES = (
    "storage",
    "coordination",
    "clusterstate",
    "controller",
    "broker",
    "analytics",
    "logcheck",
    "monitoring",
    "trust",
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
CODE = sorted(
    path
    for folder in (*PACKAGES, "benchmarks", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
# Time in the simulation is virtual, so a pause costs nothing there.
REAL_TIME_TESTS = [
    path for path in sorted((ROOT / "tests").rglob("*.py")) if "simulation" not in path.parts
]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DELIBERATE_PAUSES = {
    "tests/integration/broker/test_crash.py": "duration of the load",
    "tests/integration/coordination/test_sessions.py": "duration of the server's pause",
    "tests/unit/client/test_background.py": "time for timers to fire",
}
TOP_LEVEL = {
    *PACKAGES,
    "benchmarks",
    "docs",
    "scripts",
    "tests",
    *(".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in"),
    *("Makefile", "README.md", "SECURITY.md", "constraints.txt", "pyproject.toml", "setup.py"),
}
MANY = 50
# "Decision: ..." or "Composition of ..." instead of "... (decision)."
OTHER_FORM = re.compile(r"(^|\. )(Decision|Edge|Composition)\b")
IMPURE_MODULES = {"asyncio", "socket", "os", "time", "random", "structlog", "logging"}
# Known exceptions. A fix of one removes its entry.
KNOWN_IMPURE_DECISIONS = {
    "coordination/client/hosts.py": ["random"],
    "coordination/server/four_letter.py": ["os"],
    "ottla/client/producer/producer_batch.py": ["asyncio"],
    "storage/disk/directory_health.py": ["structlog"],
}
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
ADR_SECTIONS = [
    "Context",
    "Decision",
    "Consequences",
    "Alternatives and their numbers",
    "How we would notice that we were wrong",
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def canonical(requirement: str) -> str:
    name = re.split(r"[<>=;\[ ~!]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_repository_has_no_files_that_a_test_left_behind() -> None:
    """A broker that is started with a wrong directory writes its logs beside the sources."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    tops = {path.partition("/")[0] for path in listed if path}
    assert tops - TOP_LEVEL == set()


def test_every_module_has_a_docstring() -> None:
    silent = [
        name_of(path)
        for path in CODE
        if path.stat().st_size > 0 and ast.get_docstring(tree_of(path)) is None
    ]
    assert silent == []


def undocumented(path: Path) -> list[str]:
    """Return the public definitions in a module without a docstring.

    Exempt are the structs of messages, whose names and fields are the protocol's, and methods that
    a Protocol in the same module documents.
    """
    tree = tree_of(path)
    explained = {
        method.name
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and ast.get_docstring(method)
    }
    return [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for node in public_definitions(tree)
        if ast.get_docstring(node) is None
        and not {"struct", "overload"} & set(map(ast.unparse, node.decorator_list))
        and not (isinstance(node, ast.FunctionDef) and node.name in explained)
    ]


def public_definitions(
    parent: ast.Module | ast.ClassDef,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield public classes, functions and methods, without definitions inside functions."""
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def test_every_public_definition_has_a_docstring() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    assert len(files) > MANY, "too few files were found for a meaningful check"
    assert [place for path in sorted(files) for place in undocumented(path)] == []


def is_real_sleep(node: ast.AST) -> bool:
    """Whether `node` waits for time to pass; `asyncio.sleep(0)` only yields to other tasks."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if not (isinstance(node.func.value, ast.Name) and node.func.attr == "sleep"):
        return False
    is_yield = len(node.args) == 1 and ast.unparse(node.args[0]) == "0"
    return node.func.value.id in ("time", "asyncio") and not is_yield


def unexplained_sleeps(source: str) -> list[int]:
    """Return the lines that sleep, unless they are in a polling loop or under a comment."""
    tree, lines = ast.parse(source), source.splitlines()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For)]
    looks = {id(node) for loop in loops for node in ast.walk(loop)}
    sleeps = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and is_real_sleep(node) and id(node) not in looks
    ]
    return [line for line in sleeps if not lines[line - 2].lstrip().startswith("#")]


def test_tests_wait_for_conditions_and_never_sleep() -> None:
    sleeping = [
        f"{name_of(path)}:{line}"
        for path in REAL_TIME_TESTS
        if name_of(path) not in DELIBERATE_PAUSES
        if "sleep" in (source := path.read_text(encoding="utf-8"))
        for line in unexplained_sleeps(source)
    ]
    assert sleeping == []


def test_every_todo_names_its_issue() -> None:
    bare = [
        f"{name_of(path)}:{number}"
        for path in CODE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"#.*\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line)
    ]
    assert bare == []


NAMES_USED = {
    "ottla": "ottla.Producer, ottla.Consumer, ottla.Admin",
    "ottla.testing": "ottla.testing.Broker, ottla.testing.Cluster, ottla.testing.Topics",
    "ottla.testing.plugin": "ottla",
    "ottla.spark": "ottla",
    "kafkawire": "kafkawire",
}


@pytest.mark.parametrize("package", NAMES_USED)
def test_client_packages_import_no_server_package(package: str) -> None:
    names = NAMES_USED[package]
    unwanted = (*SERVER_PACKAGES, "typer", "rich", "structlog", "uvloop")
    program = f"import sys, {package}; {names}; print(*set({unwanted!r}) & sys.modules.keys())"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


def test_help_of_the_commands_imports_no_server_package() -> None:
    unwanted = (*SERVER_PACKAGES, "kafkawire", "ottla.client", "asyncio")
    program = f"import sys, ottla.cli.app; print(*set({unwanted!r}) & sys.modules.keys())"
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


def test_every_dependency_is_pinned() -> None:
    optional = PROJECT["project"]["optional-dependencies"].values()
    wanted = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(requirement for group in optional for requirement in group),
    ]
    assert {canonical(requirement) for requirement in wanted} - {
        canonical(pin) for pin in PINS
    } == (set())
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in PINS.values())


def test_decision_modules_import_no_input_or_output() -> None:
    modules = decision_modules()
    assert len(modules) > MANY, "too few files were found for a meaningful check"
    impure = {
        module: sorted(found)
        for module in modules
        if (found := IMPURE_MODULES & imported_by(ROOT / module))
    }
    assert impure == KNOWN_IMPURE_DECISIONS


def test_modules_name_their_kind_in_parentheses() -> None:
    """Otherwise a decision module would be checked and covered like any other."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    heads = {path: docstring_of(path).partition("\n\n")[0] for path in paths}
    assert len(heads) > MANY, "too few files were found for a meaningful check"
    assert [path for path, head in heads.items() if OTHER_FORM.search(head)] == []


def docstring_of(path: Path) -> str:
    return ast.get_docstring(tree_of(path)) or ""


def imported_by(path: Path) -> set[str]:
    """Return the top-level names that a module imports itself."""
    nodes = nodes_of(path)
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    parts = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in plain | parts}


def test_makefile_explains_every_target() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    [phony] = [line for line in lines if line.startswith(".PHONY:")]
    explained = {line.split(":")[0] for line in lines if re.match(r"[a-z]+:.*## \S", line)}
    assert set(phony.split()[1:]) == explained


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_have_a_target(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) + re.findall(r'src="([^"]+)"', text)
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, which a link may name after the `#`."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", text)
    assert [
        (target, heading)
        for target, heading in links
        if heading not in headings(page.parent / target if target else page)
    ] == []


def test_generated_pages_are_current() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "scripts.generate_docs", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_configuration_page_has_every_key_of_a_broker() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))
    assert {declared.key.name for declared in DECLARED_KEYS} - listed == set()


def test_changelog_has_the_agreed_sections() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert "## [Unreleased]" in lines
    assert {line.removeprefix("### ") for line in lines if line.startswith("### ")} <= CHANGES


def test_every_decision_record_has_a_unique_number_and_all_sections() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    numbers = [record.name[:4] for record in records]
    assert numbers == sorted(set(numbers))
    listed = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    assert [record.name for record in records if f"({record.name})" not in listed] == []
    for record in records:
        lines = record.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"# ADR {record.name[:4]}: "), record.name
        assert re.match(r"Status: (proposed|accepted|superseded)", lines[2]), record.name
        assert [line[3:] for line in lines if line.startswith("## ")] == ADR_SECTIONS, record.name


def test_licence_file_matches_the_project_metadata() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
