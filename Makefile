# make demo           the main job, on a real model
# make test           lint, floors, types, every quick test, and some slow ones through the command line
# make test-all       the slow ones too (CI runs an eighth of sweeps and of tests with many cases: tests/sweep.py)
# make test ORDER=7   files and their tests shuffled, by that seed; test-all likewise
# make soak           hours: kills at random times, leaks of 200 conversions, random graphs,
#                     100,000 damaged files
# make coverage       every test, traced: docs/tests.md
# make mutation       whether tests notice small changes: docs/tests.md
# make bench          the figures of docs/performance.md
# make precision      docs/precision.md: what lower precisions keep, held to its limits
# make docs           the site, build/site: every link and anchor checked
# make release        build/release: sdist and wheel, the same bytes each time, tried in clean environments
# make zoo            every model of the zoo, converted: docs/zoo.md
# make gpu-test       tests/gpu and docs/gpu.md, on a machine with a GPU
# make gpu-test WHEELS=DIR PYTHON=python3  the same without a network: see CONTRIBUTING.md

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-rest test-all soak coverage mutation lint types bench precision docs \
	release zoo gpu-test clean

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
	PYTHONPATH=. $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m tests.docs.style

types: $(VENV)/.dev
	$(BIN)/mypy

PYTEST = $(BIN)/python -m pytest $(if $(ORDER),--random-order-seed=$(ORDER))

# Tests of a tier (tests/conftest.py) by two workers, a file each at a time; by two others what needs
# a process of its own; then what nothing may run beside.
TWO := -n 2 --dist loadfile
define tests
$(PYTEST) $(TWO) -m '$(1) and not apart and not alone'
$(PYTEST) $(TWO) -m '$(1) and apart'
$(PYTEST) -m '$(1) and alone'
endef

test: lint types
	$(call tests,not rest)

test-rest: $(VENV)/.dev
	$(call tests,rest)

test-all: test
	$(MAKE) test-rest

# Every process that the tests start is traced, and knows whose it is (tests/measured).
coverage: export COVERAGE_PROCESS_START := $(CURDIR)/pyproject.toml
coverage: export COVERAGE_FILE := $(CURDIR)/build/tests/data
coverage: export MODELYARD_CODE := $(CURDIR)
coverage: export MODELYARD_RECORD := $(CURDIR)/build/tests/tests.jsonl
coverage: $(VENV)/.dev
	rm -f build/tests/data* build/tests/tests.jsonl
	-$(PYTEST) -p tests.measured.recording $(TWO) -m 'not apart and not alone'
	-$(PYTEST) -p tests.measured.recording $(TWO) -m apart
	-$(PYTEST) -p tests.measured.recording -m alone
	env -u COVERAGE_PROCESS_START $(BIN)/coverage combine -q
	env -u COVERAGE_PROCESS_START $(BIN)/python -m tests.measured.page

mutation: $(VENV)/.dev
	$(BIN)/python -m tests.measured.mutation
	$(BIN)/python -m tests.measured.page

soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak

bench: $(VENV)/.dev
	$(BIN)/python -m bench

precision: $(VENV)/.dev
	$(BIN)/python -m bench.precision

docs: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python -m mkdocs build --quiet

release: $(VENV)/.dev
	$(PIP) -e '.[release]'
	$(BIN)/python -m tests.release

zoo: $(VENV)/.dev
	$(BIN)/python -m zoo.page

ifdef WHEELS
GPU_SITE := $(CURDIR)/build/gpu-site
GPU := PYTHONPATH=$(GPU_SITE):$(CURDIR) MODELYARD_CACHE=$(abspath $(WHEELS)/cache) $(PYTHON)

gpu-test:
	$(PYTHON) -m bench.gpu_install $(WHEELS) $(GPU_SITE)
	$(GPU) -m pytest -rs tests/gpu; code=$$?; $(GPU) -m bench.gpu && exit $$code
else
gpu-test: $(VENV)/.dev
	$(BIN)/python -m pytest -rs tests/gpu; code=$$?; $(BIN)/python -m bench.gpu && exit $$code
endif

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache
