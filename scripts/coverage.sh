#!/bin/sh
# Run the quick tests, and each micro-benchmark once, with coverage of those that look closely
# (tests/conftest.py names the others). Fails below 90 % of all lines, and when a line of a module
# that decides was not run (scripts/decision_modules.py).
set -eu

bin=$1
workers=$2

rm -f .coverage .coverage.*
# The ci profile draws the same examples each time, so that coverage is the same each time.
run() {
    "$bin/python" -m pytest -q --hypothesis-profile=ci --cov --cov-report= "$@"
}

# Of the programs that we did not write, those that need no Java and few seconds belong here.
set -- tests/unit tests/property tests/simulation tests/integration tests/analytics benchmarks/micro \
    tests/interop/test_kio.py tests/interop/test_kio_gaps.py tests/interop/test_record_batches.py \
    tests/interop/clients/test_matrix.py tests/interop/clients/test_same_bytes.py \
    tests/interop/duplicates
# Each worker imports every test. They shall find them compiled, or all do the same work at once.
# What cannot be imported is told by the run itself.
compile_tests() {
    "$bin/python" -m pytest -qq --collect-only "$@" >/dev/null 2>&1 || true
}
compile_tests tests/unit &
compile_tests tests/property tests/simulation tests/integration tests/analytics tests/interop
wait
# A file stays together, so that what its tests share, one Spark for one, is started once.
if ! run -n "$workers" --dist loadfile --no-loadscope-reorder "$@"; then
    # Where dozens of processes share two cores one may be late; what is wrong fails again.
    echo "What failed is run once more, one by one; a test that passes now deserves a look."
    run --cov-append --last-failed --last-failed-no-failures=none "$@"
fi
"$bin/coverage" report --fail-under=90
"$bin/coverage" report --fail-under=100 --include="$("$bin/python" -m scripts.decision_modules)"
