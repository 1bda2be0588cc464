# Two commands matter: `make serve` and `make test`. Everything else is a part of them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(STAMP)  ## make the environment in .venv

# Tiny tensors lose time to threads, and two test processes fill two cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest

static: setup  ## format, lint, import contracts, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

fast: setup  ## the tests that take no time
	$(PYTEST) -n 2 -m "not slow"

check:  ## static and fast, side by side (under 90 s)
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory -j2 --output-sync=target static fast

test: setup  ## everything that CI runs
	@$(MAKE) --no-print-directory static
	$(PYTEST) -n 2 --deselect tests/process
	$(PYTEST) tests/process

catalogue: setup  ## pull the models of the catalogue and compare them with transformers (2 GB, slow)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[catalogue]'
	$(BIN)/pytest tests/catalogue --timeout 900

bench-sched: setup  ## host cost of scheduling; writes benchmarks/results/sched.json
	$(BIN)/python -m benchmarks.sched

faults: setup  ## kill real processes under load; writes benchmarks/results/faults.json
	$(BIN)/python -m benchmarks.faults

docs: setup  ## write the generated parts of the docs
	$(BIN)/python scripts/docs.py --write

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove everything that is not tracked
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup static fast check test catalogue bench-sched faults docs format clean
