# The front door. Every target works alone on a fresh machine with python3, g++, make and perl.
PYTHON ?= python3
VENV ?= .venv
PRESET ?= vcu128
OUT ?= runs/digits
VENV_TORCH ?= .venv-torch
VENV_DOCS ?= .venv-docs
BIN = $(VENV)/bin
WORKERS = -n 2 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE # or each process that a test starts, and there are hundreds, compiles all that it imports
# What other programs take part in, or are compared with.
OTHERS = tests/nn tests/research --ignore=tests/research/test_endurance.py tests/formats/interchange tests/cli/test_plot.py \
	tests/train/test_events.py tests/train/test_reports.py tests/cli/bench/test_scaling.py tests/cli/research/test_paper.py

.PHONY: help setup train test test-torch formal coverage campaign lint verilog contract bench resources docs

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12
setup: $(VENV)/.installed ## make the virtual environment and install everything in it

train: setup ## train on handwritten digits, on the simulated accelerator
	$(BIN)/eta-lstm train --dataset digits --device sim --epochs 6 --theta 0.1 --ms2 0.3 --overwrite --out $(OUT)

test: lint ## check the style, run every test
	$(BIN)/python -m pytest $(WORKERS)

test-torch: $(VENV_TORCH)/.installed ## run the tests that need PyTorch and other programs, in a virtual environment of their own
	$(VENV_TORCH)/bin/mypy -p etalstm.nn -p etalstm.research && $(VENV_TORCH)/bin/python -m pytest $(WORKERS) $(OTHERS)

formal: setup ## prove the plumbing of the hardware, and that faults in it would be found
	$(BIN)/python -m pytest tests/formal $(WORKERS) --formal
coverage: setup ## which instructions and which bits of the control logic the simulated programs reach (10 minutes)
	$(BIN)/eta-lstm verify coverage && $(BIN)/eta-lstm verify coverage --preset test-int8
campaign: formal ## the long part of docs/trust.md: proofs, arithmetic, faults, programs, coverage, endurance (hours)
	$(BIN)/eta-lstm verify arithmetic --pairs 100000000 && $(BIN)/eta-lstm verify programs --count 10000 && $(BIN)/eta-lstm verify programs --on model --count 1000000 && $(BIN)/eta-lstm verify programs --preset test-int8 --count 20000
	$(BIN)/eta-lstm verify faults --count 105500 && $(BIN)/eta-lstm verify faults --count 10000 --scrub && $(BIN)/eta-lstm verify coverage && $(BIN)/eta-lstm verify coverage --preset test-int8
	$(BIN)/eta-lstm verify endurance --device golden && $(BIN)/eta-lstm verify endurance --device sim

lint: setup ## check the style, who imports whom, and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/mypy

verilog: setup ## write the Verilog of PRESET (vcu128) to build/PRESET
	$(BIN)/eta-lstm hw verilog --preset $(PRESET) -o build/$(PRESET)
resources: setup ## check that preset vcu128 fits its part, and how deep its logic is (minutes the first time)
	$(BIN)/eta-lstm hw resources --preset vcu128 --check
contract: setup ## write docs/contract anew, after a change of hw/etalstm_hw/contract
	$(BIN)/eta-lstm hw contract
bench: setup ## measure a training iteration on the simulated accelerator, and the golden trainer
	$(BIN)/eta-lstm bench iteration --preset bench --input 256 --hidden 256 --layers 1 --batch 32 --steps 8 && $(BIN)/eta-lstm bench golden --hidden 256 --layers 2 --batch 32 --steps 35
docs: $(VENV_DOCS)/.installed ## make the documentation site, build/site; a dead link or a stale path in it is an error
	NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/mkdocs build --strict

# Older versions left bytecode in folders that have no sources any more: `import coverage` would find sim/coverage.
$(VENV)/.installed: EXTRAS = test,report
$(VENV_TORCH)/.installed: EXTRAS = test,test-torch
$(VENV_DOCS)/.installed: EXTRAS = docs
%/.installed: pyproject.toml # --no-compile: Python compiles what is imported, and most of PyTorch never is
	find sw hw sim boards ! -path '*/etalstm*' \( -path '*/__pycache__/*' -o -type d -empty \) -delete && $(PYTHON) -m venv $*
	$*/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$(EXTRAS)]' && touch $@
