# Every target sets up what it needs on a fresh machine: Python 3.11 or newer, nothing else.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 2
TESTS := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

.PHONY: demo test test-slow test-portable lint bench clean

demo: .venv/installed
	$(BIN)/crossbias demo --out runs/demo

test: .venv/installed
	$(TESTS)

test-slow: .venv/installed
	$(TESTS) -m slow

# What may depend on the processor, on three instruction sets and with one and two threads.
test-portable: .venv/installed
	for capability in default avx2 ""; do for threads in 1 2; do \
	  ATEN_CPU_CAPABILITY=$$capability OMP_NUM_THREADS=$$threads $(BIN)/pytest -q -m portable || exit 1; \
	done; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python -m benchmarks

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache
