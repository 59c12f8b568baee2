#!/bin/sh
# Run the quick tests with coverage, in the processes that they start too. Fails below 90 % of all
# lines, and below 100 % of the modules that decide (pyproject.toml, [tool.ottla.coverage]).
set -eu

bin=$1
workers=$2

decision_modules() {
    "$bin/python" - <<'PYTHON'
import pathlib
import tomllib

project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))
print(",".join(project["tool"]["ottla"]["coverage"]["decision_modules"]))
PYTHON
}

rm -f .coverage .coverage.*
"$bin/python" -m pytest -q -n "$workers" --cov --cov-report= tests --ignore=tests/interop
"$bin/coverage" report --fail-under=90
"$bin/coverage" report --include="$(decision_modules)" --fail-under=100
