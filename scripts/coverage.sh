#!/bin/sh
# Run the quick tests, and each micro-benchmark once, with coverage, in the processes that they start
# too. Fails below 90 % of all lines, and when a line of a module that decides was not run
# (scripts/decision_modules.py).
set -eu

bin=$1
workers=$2

rm -f .coverage .coverage.*
# The ci profile draws the same examples each time, so that coverage is the same each time.
"$bin/python" -m pytest -q -n "$workers" --hypothesis-profile=ci --cov --cov-report= \
    tests benchmarks/micro --ignore=tests/interop/cli --ignore=tests/interop/coordination \
    --ignore=tests/interop/storage --ignore=tests/interop/analytics
"$bin/coverage" report --fail-under=90
"$bin/coverage" report --fail-under=100 --include="$("$bin/python" -m scripts.decision_modules)"
