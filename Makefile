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

check: setup  ## format, lint, types, import contracts, fast tests (under 90 s)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow"

test: setup  ## everything that CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench-sched: setup  ## host cost of scheduling; writes benchmarks/results/sched.json
	$(BIN)/python -m benchmarks.sched

faults: setup  ## kill real processes under load; writes benchmarks/results/faults.json
	$(BIN)/python -m benchmarks.faults

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove everything that is not tracked
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help setup check test bench-sched faults format clean
