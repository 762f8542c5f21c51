# make demo   the whole way: train, evaluate, export, drive the fleet over the ML-Agents protocol
# make test   lint, type check, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCENARIO ?= warehouse_small
RUN ?= runs/demo

.PHONY: help setup demo test lint typecheck unit benchmarks wheel clean

help:
	@echo "make demo        train, evaluate, export and drive $(SCENARIO); results in $(RUN)"
	@echo "make test        lint, type check and all tests"
	@echo "make setup       the environment $(VENV) with everything in it"
	@echo "make benchmarks  the tables of docs/benchmarks.md"
	@echo "make wheel       a wheel and a source distribution in dist/"
	@echo "make clean       remove $(VENV), runs/, dist/ and caches"

# Two stamps: the demo needs no development tools.
$(VENV)/.train: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or newer is needed, got {sys.version.split()[0]}: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train]'
	touch $@

$(VENV)/.dev: $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,mamujoco,mpe,dev]'
	touch $@

setup: $(VENV)/.dev

demo: $(VENV)/.train
	$(BIN)/agv-bridge demo $(SCENARIO) --run $(RUN)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadgroup

test: lint typecheck unit

benchmarks: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/bench_simulator.py
	$(BIN)/python tests/benchmarks/bench_training.py
	$(BIN)/python tests/benchmarks/bench_exchange.py

wheel: $(VENV)/.dev
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) runs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
