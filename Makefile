.DEFAULT_GOAL := help
.PHONY: help setup lock java jars delta demo test check soak connect bench wheel versions clean

# The first interpreter that starts and is new enough; a shim that cannot start its version counts as absent.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# One process per core; each that gets a test with Spark has a session of its own (tests/conftest.py).
TESTS ?= --numprocesses auto

help:
	@echo 'make setup     create .venv, install lowwater with all it needs, check that Java 17+ is there'
	@echo 'make jars      fetch Kafka, its connector, a JDBC driver and Delta for the tests, once, with Maven'
	@echo 'make demo      a window query over a disordered stream, end to end'
	@echo 'make test      lint, format, types, import layers, and the tests'
	@echo 'make check     lint, format, types and import layers'
	@echo 'make soak      the tests over many more cases: an hour or more'
	@echo 'make connect   the Spark tests on a Spark Connect server: about 20 minutes'
	@echo 'make delta     the tests of Delta tables, ten kills, with the Spark that Delta supports'
	@echo 'make bench     the sliding-window benchmark'
	@echo 'make wheel     build the package for pip, in dist'
	@echo 'make versions  try the wheel with every version that it declares, and write the table of the README'
	@echo 'make lock      renew the exact versions of development, in requirements.lock'
	@echo 'make clean     remove caches and build products; .venv stays'

setup: java .venv/.installed

java:
	@./scripts/java.sh

# Some distributions split venv's pip into a package of its own: install it where that is possible, then try again.
$(BIN)/pip:
	@test -n '$(PYTHON)' || { echo 'lowwater needs Python 3.11 or newer: install it so that python3 on the PATH is one, and run make setup again.' >&2; exit 1; }
	@$(PYTHON) -m venv --clear .venv >/dev/null 2>&1 || { \
		root=$$(test "$$(id -u)" = 0 || echo sudo -n); \
		version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		if command -v apt-get >/dev/null; then \
			$$root apt-get update; $$root apt-get install -y "python$$version-venv" || $$root apt-get install -y python3-venv; \
		elif command -v dnf >/dev/null; then $$root dnf install -y python3-pip; \
		elif command -v apk >/dev/null; then $$root apk add --no-cache py3-pip; \
		fi >/dev/null 2>&1; \
		$(PYTHON) -m venv --clear .venv >/dev/null 2>&1 || { \
			rm -rf .venv; \
			echo "$(PYTHON) cannot create a virtual environment with pip: install its venv package (python$$version-venv on Debian and Ubuntu), and run make setup again." >&2; \
			exit 1; }; }

# The exact versions of the lock file, and the package itself from this directory: by uv in a fraction of pip's time, and
# by pip where only pip has been told of a registry or a folder of packages.
.venv/.installed: pyproject.toml requirements.lock | $(BIN)/pip
	@$(PIP) "$$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements.lock)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --requirement requirements.lock || $(PIP) --requirement requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable . || $(PIP) --no-deps --editable .
	@touch $@

# Renews the exact versions: the newest that pyproject.toml allows, for every system and Python.
lock: | $(BIN)/pip
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev --no-header --no-annotate \
		--output-file requirements.lock pyproject.toml

demo: setup
	$(BIN)/lowwater demo

# Spark prepared for many short sessions: tests/spark/quick.py says what that is.
.venv/quick-spark/classes.jsa: .venv/.installed tests/spark/quick.py
	$(BIN)/python -m tests.spark.quick

# Tests that need them say so and skip where they cannot be fetched.
jars: .venv/.installed
	$(BIN)/python -m benchmarks.jars

# The preparation of Spark runs on one core, so the checks go beside it.
test: setup
	@$(MAKE) --no-print-directory --jobs 2 check .venv/quick-spark/classes.jsa
	-@$(BIN)/python -m benchmarks.jars
	$(BIN)/python -m pytest $(TESTS) --durations 15

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Delta supports Spark up to 4.2. All packages but these two are those of .venv, which come behind them on the path.
.venv/delta/.installed: .venv/.installed
	$(BIN)/python -m venv --clear .venv/delta
	.venv/delta/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark==4.2.0' 'delta-spark==4.4.0'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(.venv/delta/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lowwater-others.pth"
	@touch $@

delta: jars .venv/delta/.installed
	LOWWATER_SOAK=1 .venv/delta/bin/python -m pytest tests/spark/test_destinations.py -k killed_query

soak: setup .venv/quick-spark/classes.jsa
	-@$(BIN)/python -m benchmarks.jars
	LOWWATER_SOAK=2000 $(BIN)/python -m pytest $(TESTS)

connect: setup .venv/quick-spark/classes.jsa
	LOWWATER_SOAK=1 $(BIN)/python -m pytest --durations 10 tests/spark/test_connect.py

bench: setup
	$(BIN)/lowwater bench sliding

# The package for pip. Whatever an earlier build has left would go into it.
wheel: setup
	@rm -rf build dist
	$(BIN)/uv build --quiet --wheel --out-dir dist .

# Environments of their own under .venv/versions, with packages from the cache of uv.
versions: wheel
	$(BIN)/python scripts/versions.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
