#!/bin/sh
# Run the quick tests, and each micro-benchmark once, with the programs in $1 and $2 workers. A
# third argument counts the lines that run, except in the tests that tests/conftest.py excludes.
set -eu

bin=$1
workers=$2
if [ -n "${3:-}" ]; then
    export OTTLA_TEST_COUNTED=1
fi

# These tests include the interoperability tests that need no Java and only a few seconds.
set -- tests/unit tests/property tests/simulation tests/integration tests/analytics benchmarks/micro \
    tests/interop/test_kio.py tests/interop/test_kio_gaps.py tests/interop/test_record_batches.py \
    tests/interop/clients/test_matrix.py tests/interop/clients/test_same_bytes.py \
    tests/interop/duplicates
# Each worker imports every test. Compile the bytecode of all tests once, before all workers would
# do so at the same time. The test run itself reports a test that fails to import.
compile_tests() {
    "$bin/python" -m pytest -qq --collect-only "$@" >/dev/null 2>&1 || true
}
compile_tests tests/unit &
compile_tests tests/property tests/simulation tests/integration tests/analytics tests/interop
wait
rm -f .coverage .coverage.*
# Each file runs on one worker, so that fixtures shared by its tests, such as Spark, start once.
exec "$bin/python" -m pytest -q -n "$workers" --dist loadfile --no-loadscope-reorder "$@"
