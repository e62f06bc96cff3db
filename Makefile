# Everything from a clean clone: `make demo`. `make help` lists the rest.
# Needs Python 3.11, a JDK 17 and Maven; the first target says what is missing.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Of tests: each starts a stack of its own, about 2 GB. While one waits for a service the other computes.
WORKERS ?= 2

# Stamps are named by content, so a second run does nothing and a changed file does just its own step.
LOCK_STAMP := $(VENV)/.locked-$(shell cksum < requirements.lock | tr ' ' -)
PROJECT_STAMP := $(VENV)/.project-$(shell cksum < pyproject.toml | tr ' ' -)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench bench-quick bench-guard lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: $(LOCK_STAMP) $(PROJECT_STAMP) ## .venv from the lock, and the verified jars
	@$(BIN)/python -m deploy.flink.local_stack

demo: setup ## start everything, replay a real reaction log, watch the counts (ARGS="--sample")
	@$(BIN)/likes demo $(ARGS)

test: setup ## every test, on services that they start themselves (ARGS="tests/unit -k register")
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

lint: setup ## ruff check, ruff format --check, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-quick: setup ## throughput, skew and latency; each asserts its result before it prints a time
	$(BIN)/python -m bench.quick $(ARGS)

bench-guard: setup ## ratios that noise does not move and a mistake does; a few minutes
	$(BIN)/python -m bench.guard $(ARGS)

bench: setup ## the whole report, about an hour (ARGS="--only peers"): bench/report.md
	$(BIN)/python -m bench $(ARGS)

lock: $(LOCK_STAMP) ## resolve the dependencies anew: requirements.lock (needs uv) and the jars' checksums
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements.lock
	$(BIN)/python -m deploy.flink.local_stack --relock

clean: ## stop the stack and remove what was made here; downloaded jars stay in the cache
	@if [ -x $(BIN)/likes ]; then $(BIN)/likes stack down --purge; fi
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One line that names everything missing, before anything is downloaded.
$(VENV)/.tools:
	@missing=; \
	$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1 || missing="$$missing python3.11"; \
	{ "$${JAVA_HOME:-/nonexistent}/bin/java" -version 2>&1 || true; java -version 2>&1 || true; } | grep -q 'version "17' || missing="$$missing java-17"; \
	mvn --version >/dev/null 2>&1 || missing="$$missing mvn"; \
	if [ -n "$$missing" ]; then \
	  echo "error: missing:$$missing; Debian/Ubuntu: sudo apt-get install python3.11 python3.11-venv openjdk-17-jdk-headless maven; macOS: brew install python@3.11 openjdk@17 maven (and set JAVA_HOME)" >&2; \
	  exit 1; \
	fi; \
	mkdir -p $(VENV) && touch $@

$(LOCK_STAMP): | $(VENV)/.tools
	@echo "python: creating $(VENV) and installing requirements.lock (about 700 MB on the first run)"
	@$(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install --python $(BIN)/python --no-deps --require-hashes -r requirements.lock; \
	else \
	  $(BIN)/python -m pip install --disable-pip-version-check --no-deps --require-hashes -r requirements.lock; \
	fi
	@touch $(VENV)/.tools $@

$(PROJECT_STAMP): $(LOCK_STAMP)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-build-isolation --no-deps --editable .
	@touch $@
