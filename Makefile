# make demo   the main job, on a real model
# make test   the whole test suite (what CI runs)
# make bench  the figures of docs/performance.md
# make zoo    every model of the zoo, converted: docs/zoo.md

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types bench zoo clean

$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[torch]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/modelyard run recipes/efficientnet-lite0-triton.yaml --out build/demo --overwrite

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest

bench: $(VENV)/.dev
	$(BIN)/python -m bench

zoo: $(VENV)/.dev
	$(BIN)/python -m zoo.page

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache
