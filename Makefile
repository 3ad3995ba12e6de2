# Every command of the project. Each works as the first one in a fresh clone: scripts/setup.sh makes .venv when needed.

PYTHON ?= python3
VENV := .venv/bin
# A file stays with one process: most have something that is made once for all of their tests.
PYTEST := $(VENV)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder
export PYTHON
# The tests' files lie in memory where there is room: they sync thousands of small stores, and none has to outlast the machine.
MEMORY_FOLDER := $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -ge 2000000 ] 2>/dev/null && echo /dev/shm)
IN_MEMORY := $(if $(MEMORY_FOLDER),TMPDIR=$(MEMORY_FOLDER))
# What a developer runs at every change: no server, no browser, no child process, no state machine.
FAST := tests/policy tests/insights tests/i18n tests/testing/test_inline.py tests/extract/test_extract.py tests/extract/test_page_count.py \
  tests/contract/test_memory.py tests/contract/test_sqlite.py tests/docs/test_blocks.py tests/docs/test_priority_pages.py
# Tests start hundreds of processes, which would compile our modules again and again.
unexport PYTHONDONTWRITEBYTECODE

# A changed lock has another stamp, so it is installed anew.
stamp = .venv/.$(1)-$(shell sha256sum requirements/$(1).txt | cut -c1-16)
RUN := $(call stamp,run)
TEST := $(call stamp,test)
BENCH := $(call stamp,bench)
PAGE := .venv/.page-$(shell cat package-lock.json requirements/node.txt | sha256sum | cut -c1-16)

LOCKING := --generate-hashes --no-emit-index-url --no-header --no-annotate $(ARGS)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo pipeline test test-fast cover lint format bench mutants soak fairness screenshots lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUN) ## Process real documents of six customers, one of them a flood, on SQLite with two workers
	@PYTHONPATH=src:examples $(VENV)/python -m demo --chart demo/waits.svg $(ARGS)

pipeline: $(RUN) ## Split, read, classify and export real PDFs of two customers, step by step
	@PYTHONPATH=src:examples $(VENV)/python -m pipeline $(ARGS)

test: $(TEST) ## Lint, and beside it run the tests (ARGS='-k turns' for some)
	@# In a new clone the tests are compiled first; each of the five processes would compile them again.
	@echo 'test: lint and pytest'
	@log=$$(mktemp); { $(MAKE) --no-print-directory lint >$$log 2>&1; status=$$?; cat $$log; exit $$status; } & lint=$$!; \
	[ -d tests/worker/__pycache__ ] || $(VENV)/python -m pytest --collect-only -qq >/dev/null 2>&1; \
	$(IN_MEMORY) $(PYTEST) $(ARGS); tests=$$?; \
	wait $$lint; checks=$$?; rm -f $$log; [ $$checks -eq 0 ] || echo 'test: lint failed, see above'; exit $$((tests | checks))

test-fast: $(TEST) ## Lint, and beside it run what needs no server, browser or process
	@echo 'test-fast: lint and pytest'
	@log=$$(mktemp); $(MAKE) --no-print-directory lint >$$log 2>&1 & lint=$$!; \
	$(IN_MEMORY) $(VENV)/python -m pytest -q -n 2 -k 'not Steps' $(FAST) $(ARGS); tests=$$?; \
	wait $$lint; checks=$$?; cat $$log; rm -f $$log; exit $$((tests | checks))

cover: $(TEST) ## Run the tests with branch coverage, of the processes that they start too; it takes twice as long
	@rm -f .coverage .coverage.*
	@$(IN_MEMORY) $(PYTEST) --cov --cov-report= $(ARGS); tests=$$?; \
	$(VENV)/coverage combine --append >/dev/null; $(VENV)/coverage report || tests=1; exit $$tests

lint: $(TEST) $(PAGE) ## Check format, lint rules, words, types and the direction of imports; of the page too
	@echo 'lint: ruff, vocabulary, mypy, import-linter; beside them tsc and eslint'
	@log=$$(mktemp); scripts/lint_page.sh $(PAGE) >$$log 2>&1 & page=$$!; \
	$(VENV)/ruff format --check && $(VENV)/ruff check && $(VENV)/python scripts/vocabulary.py && $(VENV)/mypy && $(VENV)/lint-imports --no-logo; code=$$?; \
	wait $$page; checks=$$?; cat $$log; rm -f $$log; exit $$((code | checks))

format: $(TEST) ## Format the code and mend what ruff can mend
	@$(VENV)/ruff format
	@$(VENV)/ruff check --fix

bench: $(TEST) $(BENCH) ## Measure against others, both sides in one run (ARGS=sqlite for one)
	@PYTHONPATH=examples:tests/support $(VENV)/python -m bench $(ARGS)

mutants: $(TEST) ## Break each guarantee on purpose and see its test fail
	@$(VENV)/python scripts/mutants.py $(ARGS)

soak: $(TEST) ## Run the tests with many more examples, and the page in every size and colour (INTURN_SOAK=1)
	@INTURN_SOAK=1 $(IN_MEMORY) $(PYTEST) $(ARGS)

fairness: $(TEST) ## Play every scenario and compare the orders
	@$(VENV)/python scripts/fairness.py $(ARGS)

screenshots: $(TEST) ## Make the pictures of the web page that README shows
	@$(VENV)/python scripts/screenshots.py $(ARGS)

lock: ## Lock requirements/*.in with uv or pip-tools, whichever is there (ARGS=--upgrade for new versions)
	@if command -v uv >/dev/null; then \
	  compile='uv pip compile --quiet --universal --python-version 3.11'; \
	elif command -v pip-compile >/dev/null; then \
	  compile='pip-compile --quiet --strip-extras --allow-unsafe --no-emit-find-links --no-emit-trusted-host --no-emit-options'; \
	else \
	  echo 'lock: needs uv or pip-compile (of pip-tools) on the PATH' >&2; exit 1; \
	fi; \
	echo "lock: $${compile%% *} writes requirements/test.txt, then run.txt and bench.txt with the same versions, and node.txt"; \
	$$compile $(LOCKING) --output-file requirements/test.txt requirements/run.in requirements/test.in >/dev/null && \
	$$compile $(LOCKING) --constraint requirements/test.txt --output-file requirements/run.txt requirements/run.in >/dev/null && \
	$$compile $(LOCKING) --constraint requirements/test.txt --output-file requirements/bench.txt requirements/bench.in >/dev/null && \
	$$compile $(LOCKING) --output-file requirements/node.txt requirements/node.in >/dev/null
	@echo 'lock: npm writes package-lock.json, with the versions of package.json and hashes'
	@npm $(if $(filter --upgrade,$(ARGS)),update,install) --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error

clean: ## Remove the environment, caches and what was built
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov dist build node_modules
	find $(wildcard bench examples scripts src tests) -type d \( -name __pycache__ -o -name .hypothesis \) -prune -exec rm -rf {} +

$(RUN):
	@scripts/setup.sh run

$(TEST):
	@scripts/setup.sh test

$(BENCH):
	@scripts/setup.sh bench

$(PAGE): | $(TEST)
	@scripts/setup.sh page $@
