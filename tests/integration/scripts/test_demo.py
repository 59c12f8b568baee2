"""`make demo` on a small file."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.demo.auditing import TOPIC, prove_from_files
from scripts.demo.console import Commands
from scripts.demo.material import write_material
from tests.analytics.log_model import make_log

TIMEOUT_S = 900
AUDITS = ("integrity", "replicas", "compaction")


def run_demo(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.demo", str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("has_java", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_demo_sends_a_file_through_a_broker_and_back(tmp_path: Path, has_java: bool) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"first\n\nzw\xc3\xb6lf\n\xff\x00 no text\nlast, without a line feed")
    # The quick variant hides Java, because the start of Spark dominates the running time.
    ended = run_demo(file, **({} if has_java else {"JAVA_HOME": str(tmp_path / "nowhere")}))
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout
    assert "Everything that was sent came back, byte for byte." in ended.stdout
    assert "sent 5 records" in ended.stdout
    assert ", 0 inconsistencies" in ended.stdout
    assert "every acknowledged record was read exactly once" in ended.stdout
    assert "no acknowledged record was lost or read twice." in ended.stdout
    assert "every replica was compacted" in ended.stdout
    if not has_java or shutil.which("java") is None:
        assert "the audit is skipped: Spark needs Java" in ended.stdout
    else:
        assert ended.stdout.count(": clean; 2 partitions, 6 replicas") == len(AUDITS)
        assert "lost_key at offset" in ended.stdout
        assert "the planted fault was reported" in ended.stdout


def test_demo_skips_the_audit_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    log = make_log()
    log.topic = TOPIC
    log.write(tmp_path / "broker-1")
    prove_from_files([tmp_path / "broker-1"], tmp_path / "audit")
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert "the audit is skipped: Spark needs Java and none was found" in output


def test_commands_of_the_demo_do_not_get_options_for_other_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTTLA_BOOTSTRAP", "OTTLA_COMMAND_CONFIG", "OTTLA_PROFILE"):
        monkeypatch.setenv(name, "of another cluster")
    output = tmp_path / "environment"
    program = "import os; print([each for each in os.environ.values() if 'of another' in each])"
    commands = Commands(tmp_path, "127.0.0.1:1")
    commands.run([sys.executable, "-c", program], ["python"], output)
    assert output.read_text() == "[]\n"


def test_make_passes_a_file_with_blanks_as_one_argument() -> None:
    ended = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo", "FILE=two words.txt"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert shlex.split(ended.stdout.splitlines()[-1])[-1] == "two words.txt"


INTERRUPTED = """
import sys
from scripts.demo import __main__ as demo

def interrupted(*_):
    raise KeyboardInterrupt

demo.transfer_a_file = interrupted
sys.exit(demo.main([]))
"""


def test_interrupted_demo_prints_no_stack_trace() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "\nInterrupted.\n", "")


def test_demo_rejects_a_missing_file(tmp_path: Path) -> None:
    ended = run_demo(tmp_path / "nowhere")
    assert ended.returncode == 1
    assert "is not a file; name one with FILE=..." in ended.stdout


def test_material_has_every_line_that_a_commit_changed(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    page = root / "two words.md"

    def commit(text: str, subject: str) -> None:
        page.write_text(text, encoding="utf-8")
        git(root, "add", page.name)
        git(root, "commit", "--quiet", "--message", subject)

    git(root, "init", "--quiet")
    commit("first\nzw\u00f6lf\n", "begin")
    commit("first\n-- so\n++ \u2028\n", "continue")
    title = write_material(tmp_path / "material", root)
    assert title == "the history of this repository, a JSON line per changed line"
    found = read_lines(tmp_path / "material")
    assert [(line["subject"], line["path"], line["change"]) for line in found] == [
        ("begin", "two words.md", "+first"),
        ("begin", "two words.md", "+zw\u00f6lf"),
        ("continue", "two words.md", "-zw\u00f6lf"),
        ("continue", "two words.md", "+-- so"),
        ("continue", "two words.md", "+++ \u2028"),
    ]
    assert all(re.fullmatch("[0-9a-f]{7,}", line["commit"]) for line in found)
    assert all(re.match(r"\d{4}-\d\d-\d\dT", line["date"]) for line in found)


def test_material_without_history_is_the_documentation(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text("# Title\n\nzw\u00f6lf", encoding="utf-8")
    (root / "docs" / "page.md").write_text("one", encoding="utf-8")
    assert write_material(tmp_path / "material", root) == "the documentation, a JSON line per line"
    assert read_lines(tmp_path / "material") == [
        {"file": "README.md", "line": 1, "text": "# Title"},
        {"file": "README.md", "line": 2, "text": ""},
        {"file": "README.md", "line": 3, "text": "zw\u00f6lf"},
        {"file": "docs/page.md", "line": 1, "text": "one"},
    ]


def git(root: Path, *arguments: str) -> None:
    """Run git in `root` with a fixed identity, independent of the machine's settings."""
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    return [json.loads(line) for line in lines]
