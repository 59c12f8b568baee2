#!/bin/sh
# Run the quick tests, and each micro-benchmark once, with the programs in $1 and $2 workers. With a
# third argument the lines are counted of the tests that look closely (tests/conftest.py names the
# others), for `make coverage`.
set -eu

bin=$1
workers=$2
counting=${3:+"--cov --cov-report="}

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
rm -f .coverage .coverage.*
# A file stays together, so that what its tests share, one Spark for one, is started once.
# shellcheck disable=SC2086 # two options
exec "$bin/python" -m pytest -q $counting -n "$workers" --dist loadfile --no-loadscope-reorder "$@"
