# Each target alone does everything on a fresh machine with Python 3.11 to 3.14: it makes
# .venv, installs what it needs there, and runs.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test long bench lint format clean

demo: $(VENV)/.demo
	$(RUN) -m examples.demo

test: $(VENV)/.test
	$(RUN) -m pytest -n 2

long: $(VENV)/.test
	$(RUN) -m pytest -m long

lint: $(VENV)/.test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(VENV)/.test
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

# NumPy's matmul is measured without variables that would tie OpenBLAS to another machine's kernels;
# benchmarks/micro.py unsets them for its NumPy process alone.
bench: $(VENV)/.bench
	$(RUN) -m benchmarks --vs torch --micro --json out/benchmarks.json

$(RUN):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.test: pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable '.[test]'
	touch $@ $(VENV)/.demo

$(VENV)/.bench: pyproject.toml | $(RUN)
	$(RUN) -m pip install --quiet --editable '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) out build .mypy_cache .ruff_cache .pytest_cache
