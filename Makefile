# setup | demo | test | lint | docs | bench | voices | lock. Every target sets up .venv first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
UV := $(or $(shell command -v uv),$(BIN)/uv)
LOCK := requirements.lock
# Set in many containers; each process would then compile every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test lint docs bench voices lock
.DEFAULT_GOAL := demo

setup: $(VENV)/.installed

# --no-deps: the lock is complete, and what it leaves out (kenlm, which upstream names and never
# imports) would need a compiler. uv takes a third of pip's time; where it is missing, pip installs
# it first. `make setup UV=` takes pip for everything.
ifdef UV
INSTALL = $(UV) pip install --quiet --python $(BIN)/python --no-deps
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
endif
# Its files become links into .venv: no second copy, and nothing in the home directory.
ifeq ($(UV),$(BIN)/uv)
export UV_CACHE_DIR := $(VENV)/.cache
endif

$(VENV)/.installed: $(LOCK) pyproject.toml | $(BIN)/pip
	@echo "make: installing 9 GB into $(abspath $(VENV)); this takes minutes"
	$(if $(filter $(BIN)/uv,$(UV)),$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9')
	$(INSTALL) --requirement $(LOCK)
	$(INSTALL) --no-build-isolation --editable .
	rm -rf $(VENV)/.cache
	touch $@

$(BIN)/pip:
ifneq ($(filter-out $(BIN)/uv,$(UV)),)
	$(UV) venv --quiet --seed --allow-existing --python $(or $(shell command -v $(PYTHON)),3.11) $(VENV)
else
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON); install it, or uv, which brings it (https://docs.astral.sh/uv), or name yours: make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install -q pip; } \
	  || { rm -rf $(VENV); echo "make: $(PYTHON) has neither ensurepip nor pip; install uv, or apt install python3.11-venv, or name another Python: make PYTHON=..." >&2; exit 1; }
endif

demo: setup
	$(BIN)/danish-asr demo

# Two at a time, a file on one of them, in this order, which begins with the longest. A worker that
# crashes is not replaced: pytest-xdist would then wait for ever (its issue 784).
test: setup
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Writes the site to site/; a broken link fails.
docs: setup
	$(BIN)/mkdocs build

bench: setup
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/reading.py index
	$(BIN)/python benchmarks/converting.py
	$(BIN)/python benchmarks/intervals.py

# Real voices of two Debian packages through the whole pipeline; needs apt-get, and `make demo`.
voices: setup
	$(BIN)/python benchmarks/voices.py voices

# Writes requirements.lock from the ranges in pyproject.toml. A version stays where its range allows
# it; `make lock UPGRADE=--upgrade` takes the newest.
lock: setup
	UV_CUSTOM_COMPILE_COMMAND='make lock' $(UV) pip compile --quiet --all-extras --no-annotate \
	  --python-version 3.11 --python-platform linux --no-emit-package kenlm \
	  --no-emit-package danish-asr $(UPGRADE) --output-file $(LOCK) pyproject.toml
