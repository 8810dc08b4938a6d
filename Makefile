# make train: the main job on the embedded data set.  make test: the quick tests, a few minutes.  make test-slow: the
# others.  All of them set up .venv when needed.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: setup train test test-slow test-browser test-postgres test-release zoo faults fuzz soak check docs docs-serve
.PHONY: notebooks bench clean

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

train: setup
	$(BIN)/python examples/main_job.py

test: setup
	$(PYTEST) -m "not slow"

test-slow: setup
	$(PYTEST) -m slow

test-browser: setup
	MUPC_TEST_BROWSER=1 $(BIN)/python -m pytest tests/report/test_browser.py

test-postgres: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,postgres]'
	MUPC_TEST_POSTGRES=1 $(BIN)/python -m pytest tests/postgres -s

test-release: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,release]'
	$(BIN)/python tests/release.py $(PYTHONS)

zoo: setup
	$(PYTEST) --zoo

faults: setup
	$(BIN)/python tests/faults.py 50

fuzz: setup
	MUPC_FUZZ=full $(BIN)/python -m pytest -n 0 tests/fuzz -p no:cacheprovider

soak: setup
	$(BIN)/python tests/soak.py 20000 200

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $@

docs docs-serve: export NO_MKDOCS_2_WARNING = 1
docs: .venv/docs
	$(BIN)/mkdocs build --strict  # not --quiet, which would drop the warnings that --strict counts

docs-serve: .venv/docs
	$(BIN)/mkdocs serve

notebooks: .venv/docs
	$(BIN)/python docs/hooks/notebooks.py

bench: setup
	$(BIN)/mupc bench

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache
