# Every target that needs the virtual environment makes it first: any of them may be the first
# command typed in a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check checks compile compiled bench interop kazoo fuzz soak fmt lint types layers sim coverage docs clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Hundreds of processes are started here: each would compile all of Ottla again.
unexport PYTHONDONTWRITEBYTECODE
CODE := kafkawire storage coordination controller broker ottla analytics speedups tests benchmarks scripts
# Two more than the smallest machine has cores: many tests wait for other processes.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest -q

help:  ## Show this list.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## Make .venv and install everything that the other targets need.

$(READY): pyproject.toml constraints.txt scripts/setup.sh $(wildcard setup.py kafkawire/*.pyx kafkawire/*.pxd speedups/*.py)
	@sh scripts/setup.sh $(VENV)
	@touch $@

demo: $(READY)  ## Send a real file through a broker and back, and compare. FILE=... to choose it.
	@$(BIN)/python -m scripts.demo $(FILE)

# With COUNTED=1 it notes which lines run, for `make coverage`.
test: $(READY)  ## All quick tests: unit, property, simulation, processes, audits.
	@sh scripts/test.sh $(BIN) $(WORKERS) $(COUNTED)

check: built  ## Everything that a change must pass: about eight minutes.
	@$(MAKE) --no-print-directory test COUNTED=1
	@$(MAKE) --no-print-directory checks

# What one core can do stands beside the rest, and what each of them says comes in one piece.
checks: $(READY)  ## What `make check` does after the tests: no test runs again.
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target kazoo compiled static coverage

static: $(READY)
	@for target in lint types layers; do $(MAKE) --no-print-directory $$target || exit 1; done

fmt: $(READY)  ## Format, and fix what can be fixed.
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(READY)  ## Format and lint rules.
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(READY)  ## Strict types, everywhere.
	$(BIN)/mypy $(CODE)

layers: $(READY)  ## Who may import whom.
	$(BIN)/lint-imports

sim: $(READY)  ## Replay the cluster from seeds.
	@test ! -d tests/simulation || $(PYTEST) -n $(WORKERS) tests/simulation

coverage: $(READY)  ## How much of the code `make test COUNTED=1` ran: 90 %, and all that decides.
	@$(BIN)/coverage report --fail-under=90
	@$(BIN)/coverage report --fail-under=100 --include="$$($(BIN)/python -m scripts.decision_modules)"

fuzz: built  ## Hostile requests against a compiled broker and a coordinator, hostile servers: a minute.
	$(PYTEST) tests/fuzz

interop: $(READY)  ## Programs that we did not write, against ours: kcat, clients, kazoo, Kafka. Minutes.
	$(BIN)/python -m tests.interop.kafka_jars
	$(BIN)/python -m tests.interop.analytics.object_store
	OTTLA_INTEROP_RECORDS=100000 $(PYTEST) tests/interop

kazoo: $(READY)  ## The quick part of kazoo's own test suite, against our coordinator.
	$(BIN)/python tests/interop/coordination/kazoo_suite.py --subset

soak: $(READY)  ## Crashes, floods and long loads: many minutes.
	$(PYTEST) -m soak tests

compile: $(READY)  ## Compile what is slow in plain Python again, after a change of the sources.
	@$(BIN)/python setup.py -q build_ext --inplace

# Only what was compiled of the sources as they are is run.
built: $(READY)
	@$(BIN)/python -c "import sys, speedups.finder; sys.exit(not speedups.finder.are_built())" \
	    || $(MAKE) --no-print-directory compile

compiled: built  ## Tests of behaviour again, of the compiled modules.
	@OTTLA_TEST_COMPILED=1 $(PYTEST) -n 2 tests/unit/storage tests/unit/broker \
	    tests/integration/broker/test_bad_input.py

bench: compile  ## Loads with a reference in the same run; writes docs/benchmarks.md.
	$(BIN)/python -m benchmarks

docs: $(READY)  ## Write the generated pages: docs/configuration.md, docs/protocol.md.
	$(BIN)/python -m scripts.generate_docs

clean:  ## Remove the environment and everything that was built.
	rm -rf $(VENV) build dist *.egg-info .coverage .coverage.* .mypy_cache .ruff_cache \
	    .pytest_cache .hypothesis .import_linter_cache
	rm -rf speedups/binaries_*
	find kafkawire speedups -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
