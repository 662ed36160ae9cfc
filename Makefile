# Everything runs in a virtual environment inside the checkout; the first target that needs it makes it.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= auto

.PHONY: help demo test slow check docs bench clean
help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# constraints.txt pins what we test with (and the CPU build of torch); pyproject.toml keeps wide ranges.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("certcal needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@echo 'Setting up .venv: certcal, torch and what tests need, about 2 GB; a few minutes'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/ready  ## train and certify a small model on digits and write its report
	$(BIN)/certcal demo

# One thread a worker: more would wait for each other. Ray's tests come one after the other, with all cores for its workers.
# Bytecode is kept beside its source, also of rewritten tests: to make it again takes each worker, and each command that
# tests start, seconds. What pip made of the libraries is there already; in another place each worker would make its own.
PYTEST = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX= OMP_NUM_THREADS=1 $(BIN)/python -m pytest
QUICK = not slow and not browser and not ray

test: .venv/ready  ## run the quick tests: every feature, two minutes on two cores
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$(QUICK)" --hypothesis-profile=certcal-quick

.venv/libraries: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[libraries]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps git+https://github.com/Verified-Intelligence/auto_LiRPA@a050a3d \
		|| echo 'auto_LiRPA was not fetched: tests of the certifier lirpa will be skipped'
	@touch $@

slow: .venv/libraries  ## run the rest: slow, in a browser, with Ray, and every example of Hypothesis
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "(slow or browser or hypothesis) and not ray"
	$(PYTEST) -m ray

check: .venv/ready  ## format, lint, types, layers, all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m build --outdir build/dist .
	$(BIN)/twine check --strict build/dist/*
	$(MAKE) test
	$(MAKE) slow

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: .venv/docs  ## build the documentation site; open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'Documentation: site/index.html'

bench: .venv/ready  ## measure speed as ratios on this machine and record them in bench/results
	$(BIN)/python -m bench

clean:  ## remove the virtual environment and caches
	find src tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .venv build site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
