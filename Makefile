# Every target that needs the virtual environment creates it first, so that any target works as the
# first command in a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check checks compile compiled bench interop kazoo fuzz soak fmt lint types layers pins audit sim coverage docs clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The tests start hundreds of processes, each of which would compile all bytecode again.
unexport PYTHONDONTWRITEBYTECODE
CODE := kafkawire storage coordination clusterstate controller broker ottla analytics logcheck monitoring trust speedups tests benchmarks scripts
# Three for each core of the smallest machine, because many tests wait for other processes.
WORKERS ?= 6
PYTEST := $(BIN)/python -m pytest -q

help:  ## Show this list.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## Create .venv and install the dependencies of all targets.

$(READY): pyproject.toml constraints.txt scripts/setup.sh $(wildcard setup.py kafkawire/*.pyx kafkawire/*.pxd kafkawire/hot_codecs.py kafkawire/messages/*.py speedups/*.py)
	@sh scripts/setup.sh $(VENV)
	@touch $@

demo: $(READY)  ## Send a file through a broker and back, and compare. FILE=... chooses the file.
	@$(BIN)/python -m scripts.demo $(if $(FILE),'$(FILE)')

# COUNTED=1 records coverage for `make coverage`.
test: $(READY)  ## Run all quick tests: unit, property, simulation, integration, audits.
	@MAKEFLAGS= sh scripts/test.sh $(BIN) $(WORKERS) $(COUNTED)

check: built  ## Run everything that a change must pass: about ten minutes.
	@$(MAKE) --no-print-directory --jobs=2 test static COUNTED=1
	@$(MAKE) --no-print-directory checks

# The steps run in parallel, the longest first, with the output of each in one piece.
checks: $(READY)  ## Run the steps of `make check` after the tests.
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target compiled sim fuzz kazoo coverage

# At the lowest priority, because it runs beside the tests.
static: $(READY)
	@for target in lint types layers pins; do \
	    nice -n 19 $(MAKE) --no-print-directory $$target || exit 1; \
	done

fmt: $(READY)  ## Format the code and apply automatic fixes.
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(READY)  ## Check formatting and lint rules.
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(READY)  ## Check types with mypy in strict mode.
	$(BIN)/mypy $(CODE)

layers: $(READY)  ## Check the import rules between packages.
	$(BIN)/lint-imports

pins: $(READY)  ## Check that every dependency has a pinned version, and no other one is installed.
	@$(BIN)/python -m scripts.audit

audit: $(READY)  ## Compare the pinned dependencies with known vulnerabilities, by pip-audit.
	@$(BIN)/python -m scripts.audit --online

sim: $(READY)  ## Run simulated clusters from fresh seeds for a minute. SEED=... replays one.
	@$(BIN)/python -m tests.simulation.world $(SEED)

coverage: $(READY)  ## Check the coverage of `make test COUNTED=1`: 90 %, and 100 % of decision modules.
	@$(BIN)/coverage report --fail-under=90
	@$(BIN)/coverage report --fail-under=100 --include="$$($(BIN)/python -m scripts.decision_modules)"

fuzz: built  ## Fuzz a compiled broker, a coordinator and the clients: a minute.
	$(PYTEST) tests/fuzz

interop: $(READY)  ## Test against independent programs: kcat, clients, kazoo, Kafka. Takes minutes.
	$(BIN)/python -m tests.interop.kafka_jars
	$(BIN)/python -m tests.interop.analytics.object_store
	$(BIN)/python -m tests.interop.avro.strangers
	$(BIN)/python -m tests.interop.notebook.jupyter
	OTTLA_INTEROP_RECORDS=100000 $(PYTEST) tests/interop

kazoo: $(READY)  ## Run the quick part of kazoo's own test suite against our coordinator.
	$(BIN)/python tests/interop/coordination/kazoo_suite.py --subset

soak: $(READY)  ## Run crashes, floods and long loads: many minutes.
	$(PYTEST) -m soak tests

compile: $(READY)  ## Compile the hot modules again, after a change of their sources.
	@$(BIN)/python setup.py -q build_ext --inplace

# Compiles again if the binaries do not match the current sources.
built: $(READY)
	@$(BIN)/python -c "import sys, speedups.finder; sys.exit(not speedups.finder.are_built())" \
	    || $(MAKE) --no-print-directory compile

compiled: built  ## Run tests of behaviour against the compiled modules.
	@OTTLA_TEST_COMPILED=1 $(PYTEST) -n 2 tests/unit/storage tests/unit/broker/handlers \
	    tests/unit/broker/network tests/unit/broker/replication tests/unit/broker/test_purgatory.py \
	    tests/integration/broker/test_bad_input.py tests/integration/broker/test_secured_broker.py \
	    tests/integration/broker/test_access_matrix.py

bench: compile  ## Run all loads beside their references, and write docs/benchmarks.md.
	$(BIN)/python -m benchmarks

docs: $(READY)  ## Write the generated pages docs/configuration.md and docs/protocol.md.
	$(BIN)/python -m scripts.generate_docs

clean:  ## Remove the environment and all build products.
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* .mypy_cache .ruff_cache \
	    .pytest_cache .hypothesis .import_linter_cache
	rm -rf speedups/binaries_*
	find kafkawire speedups -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
