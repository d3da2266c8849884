# make demo: predict and check a staircase on real data.   make test: lint, types, tests.   make docs: the site.   make bench: ratios.   make audit: accuracy on real tables.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is measured while testing costs half as much again; `make test COVERAGE=` leaves it out.
COVERAGE := --cov=agf --cov=agf_problems --cov-report=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help path demo test docs bench audit clean

help:
	@sed -n '1s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "agf needs Python 3.11 or later; name one with: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# What is installed --editable is looked for after folders: a script beside a clone called agf found that folder instead.
path: | $(BIN)/python
	@echo '$(CURDIR)' > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/agf-clone.pth"

# Stamps: an installation is repeated only when what it depends on changes.
$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[data]'
	@$(MAKE) -s path
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@$(MAKE) -s path
	@touch $@ $(VENV)/demo.stamp

demo: $(VENV)/demo.stamp
	@mkdir -p out
	$(BIN)/agf compare diagonal-linear --data diabetes --alpha 1e-16 -o out/diabetes.npz --plot out/diabetes.png

test: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(COVERAGE) --ignore tests/test_constants.py
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 tests/test_constants.py
	@test -z "$(COVERAGE)" || echo "coverage: $$($(BIN)/coverage report --format=total) % of the lines"

docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs . out/site
	@echo "The site is out/site/index.html."

bench: $(VENV)/dev.stamp
	@for script in tests/benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

$(VENV)/audit.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[audit]'
	@touch $@

audit: $(VENV)/audit.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m audit --page

clean:
	rm -rf $(VENV) out
