# Every target makes its own environment first; Python 3.12 or newer is found on the PATH or under pyenv.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3 $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[2-9]*/bin/python 2>/dev/null | sort -rV); do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$p && break; done)

.PHONY: demo test check bench slow pictures clean

demo: $(VENV)/installed ## Watch a weak and a strong policy work on one question
	@$(BIN)/gradient-demo

test: $(VENV)/installed ## Run the tests
	$(BIN)/pytest -q

check: $(VENV)/installed ## Lint, types, layers, format, data
	$(BIN)/ruff check gradient_rl tests
	$(BIN)/ruff format --check gradient_rl tests
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/gradient-data validate

bench: $(VENV)/installed ## Measure speed and memory
	$(BIN)/python -m tests.benchmarks

slow: $(VENV)/installed ## The tests that take minutes
	$(BIN)/pytest -q -m slow

pictures: $(VENV)/installed ## Make the pictures of the README anew; needs chromium
	$(BIN)/python -m tests.pictures

clean:
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Gradient needs Python 3.12 or newer: install one from python.org or with 'pyenv install 3.12', then run make again"; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Gradient and what it needs (about a minute, once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@
