# Every target sets up what it needs on a fresh machine: Python 3.11 or newer, nothing else.
PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 2
# Compiled files are kept even where that is switched off: a test run compiles every module.
TESTS := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

.PHONY: demo test test-slow test-cluster test-portable lint bench fire clean

demo: .venv/installed
	$(BIN)/crossbias demo --out runs/demo

test: .venv/installed
	$(TESTS)

test-slow: .venv/installed
	$(TESTS) -m slow

# Sweeps on a real Ray cluster and a real Slurm, which needs root, slurm-wlm and munge; trainings over
# two hosts, which need root and iproute2.
test-cluster: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -m cluster -rs tests/sweep tests/distributed

# Tests whose answers a processor could change, on three instruction sets with one and two threads.
PORTABLE := tests/functional tests/verify tests/networks/test_grad_cam.py tests/train/test_training.py \
  $(addprefix tests/data/test_,$(addsuffix .py,assignment augment glyphs handwriting images mnist_sets \
  noise order planting strokes textures toy)) $(addprefix tests/methods/test_,$(addsuffix .py,end ie lff lnl pgd rebias))

test-portable: .venv/installed
	for capability in default avx2 ""; do for threads in 1 2; do \
	  echo "instruction set $${capability:-of this machine}, $$threads threads"; \
	  env $${capability:+ATEN_CPU_CAPABILITY=$$capability} OMP_NUM_THREADS=$$threads $(BIN)/pytest -q $(PORTABLE) || exit 1; \
	done; done

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed
	$(BIN)/python -m benchmarks

# Kills, power cuts, full disks, damages, intrusions and races; power cuts and small disks need root.
fire: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fire

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

clean:
	rm -rf .venv runs .mypy_cache .ruff_cache .pytest_cache
