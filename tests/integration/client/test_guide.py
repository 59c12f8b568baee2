"""Every program in docs/client.md runs, in order, and prints the output on the page.

The programs with transactions also run against Kafka (`tests/interop/transactions`).
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import StartBroker

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
EXAMPLE = re.compile(r"```python\n(?P<program>.*?)```\n```text\n(?P<output>.*?)```", re.DOTALL)
TRANSACTIONS = re.compile(r"^## Transactions\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 60


def run_examples(text: str, bootstrap: str) -> None:
    """Run the programs in a part of the page; each must print the output after it."""
    examples = list(EXAMPLE.finditer(text))
    assert len(examples) == text.count("```python"), "a program without its output"
    assert examples
    for example in examples:
        program = example["program"].replace("localhost:9092", bootstrap)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.stdout == example["output"], done.stderr


def test_every_program_prints_the_output_on_the_page(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"group.initial.rebalance.delay.ms": "0"})
    run_examples(PAGE.read_text(), broker.bootstrap)


@pytest.mark.parametrize("name", re.findall(r"\| `(\w+Error)`", PAGE.read_text()))
def test_every_error_on_the_page_exists(name: str) -> None:
    from ottla.client import errors

    # A wrong type raises Python's own error.
    assert name == "TypeError" or issubclass(getattr(errors, name), errors.OttlaError)
