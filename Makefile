# One environment in .venv, made with PYTHON; every target works from a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
export FLWR_TELEMETRY_ENABLED := 0
export RAY_USAGE_STATS_ENABLED := 0
unexport PYTHONDONTWRITEBYTECODE  # every process of a test would read all sources anew

.PHONY: install demo test test-deployed test-fast coverage lint format docs clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]" -c constraints.txt
	$(BIN)/python -m compileall -qq .venv/lib || true  # Flower and Ray start twice as fast; some files are of newer Pythons
	touch $@

demo: install
	$(BIN)/fedsuite run simulations/fedvln/quickstart.toml

PYTEST := $(BIN)/python -m pytest -q
# Whole files to a worker, in the order of tests/conftest.py.
FILES := --dist loadfile --no-loadscope-reorder
SIDE_BY_SIDE := -n logical --maxprocesses 8 $(FILES)
# Two workers more than cores: tests of Ray and of deployments wait, for processes that start and are missed.
WORKERS = $(shell $(PYTHON) -c "import os; print(min(8, os.cpu_count() + 2))")

test: install
	$(PYTEST) -m "not deployed" -n $(WORKERS) $(FILES)

# What pyproject.toml allows: all tests with the lowest versions, `make test-lowest-direct`, and the newest, `make test-highest`.
.PRECIOUS: .venv-%/installed
.venv-%/installed: pyproject.toml | install
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --resolution $* -e ".[dev]"
	touch $@

test-%: .venv-%/installed
	.venv-$*/bin/python -m pytest -q -m "not deployed" -n $(WORKERS) $(FILES)

# Every system over TLS, with nodes that are killed and, as root, lines that break and full disks; for some minutes each.
test-deployed: install
	$(PYTEST) -m deployed

# Without the folders whose tests are all slow (tests/conftest.py), so that they are not even read.
PARTS := $(addprefix --ignore=tests/,deployed golden mistakes on_ray simulations) $(SIDE_BY_SIDE)

test-fast: install
	$(PYTEST) -m "not slow" $(PARTS)

# Of the cores, by the tests of the parts, slow ones too.
coverage: install
	$(PYTEST) $(PARTS) --cov=fedsuite --cov-fail-under=90 --cov-report=term:skip-covered

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m simulations.app.app_config
	$(BIN)/python -m docs.tables --check
	$(BIN)/python -m docs.drawings --check

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Into site/; opens from the file system. Keys are read from the code, links and anchors are checked.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv build dist site *.egg-info
