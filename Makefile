# Every target sets up what it needs by itself, from a bare Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

.PHONY: help demo test check lint fix bench chromium clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    a whole audit offline, from portraits to report"
	@echo "make test    the tests"
	@echo "make check   format, lint, types, import contracts, shape of the code, tests"
	@echo "make fix     mend format and lint"
	@echo "make bench   the benchmarks, side by side with their peers"

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "stillme needs Python 3.11 or newer: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 3; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(CORE): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing stillme"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[vision]'
	@touch $@

$(DEV): $(CORE)
	@echo "Installing what the tests need"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(CORE)
	@$(BIN)/stillme demo

test: $(DEV) chromium
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: lint test

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/shape.py src

fix: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV)
	$(BIN)/python -m bench.ledger
	$(BIN)/python -m bench.measures
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m bench.sources

chromium:
	@tools/chromium

clean:
	rm -rf $(VENV) demo bench/out
