# Every target sets up what it needs by itself, from a bare Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
STUDY := $(VENV)/.study
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
EDITORS_VENV ?= .venv-editors
EDITORS_BIN := $(EDITORS_VENV)/bin
EDITORS := $(EDITORS_VENV)/.ready
EDITORS_PIP := $(EDITORS_BIN)/python -m pip --disable-pip-version-check --no-input

# Tests start the program some hundred times, several at a time: no compiling anew, no thread pools that spin.
test test-slow test-editors faults coverage: export PYTHONDONTWRITEBYTECODE :=
test test-slow test-editors faults coverage: export POLARS_MAX_THREADS := 1
test test-slow test-editors faults coverage: export OMP_NUM_THREADS := 1
test test-slow test-editors faults coverage: export OPENBLAS_NUM_THREADS := 1

.PHONY: help demo study-demo test test-slow test-all test-editors editors-environment faults fuzz coverage check lint types fix
.PHONY: bench release sbom audit-packages chromium servers clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    a whole audit offline, from portraits to report"
	@echo "make study-demo   a human study rehearsed: a fake Prolific, the server, bots, and you; ONCE=1 ends by itself"
	@echo "make test    the tests, without the slow ones: five minutes at most on two cores"
	@echo "make test-all   and the slow ones: many kills, many seeds, long fuzzing, torch and Ray"
	@echo "make test-editors   only those that need torch and Ray, on tiny pipelines, in an environment of their own"
	@echo "make faults  kills, full disks, damaged files, dead services: nothing lost, nothing invented"
	@echo "make fuzz    160,000 odd inputs to everything that reads bytes from outside"
	@echo "make coverage   every branch of the packages that numbers rest on"
	@echo "make check   format, lint, types, import contracts, shape of the code, tests"
	@echo "make fix     mend format and lint"
	@echo "make bench   the benchmarks, side by side with their peers; writes bench/RESULTS.md"
	@echo "make release wheel and sdist, tried in empty environments"
	@echo "make sbom    what stillme is made of, as CycloneDX; make audit-packages holds it against known faults"

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

$(STUDY): $(CORE)
	@echo "Installing what the human study needs"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[vision,study]'
	@touch $@

# A bundle of a planted run, then everything as it would be with people and money.
study-demo: $(STUDY)
	@rm -rf demo/study
	@$(BIN)/stillme demo --small demo/study > /dev/null
	@$(BIN)/stillme study build demo/study/small --preset exp1 --size 12 --tasks 3 --raters 2 --minimum-seconds 2 \
		--to demo/study/bundle > /dev/null
	@$(BIN)/stillme study rehearse demo/study/bundle $(if $(ONCE),--once)

# A file's tests run in one worker, so that what they share is made once; in the order that tests/conftest.py says. Three
# workers on two cores: many tests wait for a browser or a server.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test: $(DEV) chromium servers
	$(PYTEST) -m "not slow"

# The rest of `make test-all`, which `make test` leaves out.
test-slow: $(DEV) chromium servers coverage
	$(PYTEST) -m slow
	$(BIN)/python -m tests.fuzz --share 0.1

test-all: test test-slow test-editors

# torch first, as a CPU build where one is offered; torchvision's PyPI builds would ask for another torch.
$(EDITORS): pyproject.toml constraints-editors.txt
	@test -x $(EDITORS_BIN)/python || { echo "Making $(dir $@)"; $(PYTHON) -m venv $(dir $@); }
	@echo "Installing torch, diffusers and Ray"
	@$(EDITORS_PIP) install --quiet --constraint constraints-editors.txt torch
	@$(EDITORS_PIP) install --quiet --constraint constraints-editors.txt --no-deps torchvision
	@$(EDITORS_PIP) install --quiet --constraint constraints-editors.txt --editable '.[hosted,serve,ray,stores]' \
		diffusers transformers accelerate safetensors 'moto[server]' pytest hypothesis psutil httpx2
	@touch $@

editors-environment: $(EDITORS)

# An environment that lacks something fails here, instead of passing with nothing tested.
test-editors: $(EDITORS)
	@$(EDITORS_BIN)/python -c 'import torch, diffusers, ray, moto'
	$(EDITORS_BIN)/python -m pytest tests/diffusers tests/ray

# Every stage killed and starved, as often as the figures in docs/faults.md say; `make test` does it less often.
faults: $(DEV)
	$(PYTEST) tests/faults

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz

# The tests of these packages alone reach every branch of them.
COVERED := tests/stats tests/ledger tests/protocol tests/assurance/compare/test_statistics.py tests/plan/test_design.py tests/plan/test_design_trials.py tests/plan/test_stereotype.py tests/analysis/test_draw.py tests/steps/test_forecast.py tests/judges/test_ensemble.py
coverage: $(DEV)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --cov --cov-report=term $(COVERED)

check: lint test

lint: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/shape.py src
	tools/types $(VENV)

types: $(DEV)
	tools/types $(VENV)

fix: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) $(EDITORS)
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[bench]'
	EDITORS_VENV=$(EDITORS_VENV) $(BIN)/python -m bench

release: $(DEV)
	$(BIN)/python tools/release.py

sbom: $(DEV)
	$(BIN)/python tools/sbom.py

audit-packages: $(DEV)
	@$(PIP) install --quiet pip-audit
	$(BIN)/python tools/audit_packages.py

chromium:
	@tools/chromium

servers: $(VENV)/pyvenv.cfg
	@tools/servers $(VENV)

clean:
	rm -rf $(VENV) $(EDITORS_VENV) demo bench/out
