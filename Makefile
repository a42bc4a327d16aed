# `make help` lists the targets.  Every one makes and fills the virtual environment by itself, once.
# The exit code of hwflow (1: the answer is no, 2: the question was wrong) ends make with an error as well.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2

# What the commands take.  Without MODEL they run the shipped example on its own data.
MODEL       ?=
DATA        ?=
SETTINGS    ?=
BITS        ?=
BOARD       ?=
TRANSPORT   ?=
PORT        ?=
PLAN        ?=
WAVES       ?=
FLASH       ?=
CLOCK       ?=
BASE        ?=
FRAMES      ?=
SEED        ?=
SEEDS       ?=
INPUT_SHAPE ?=
SOURCE      ?=
BUILD       ?=
MODELS      ?=
ARGS        ?=

SETUP  = @command -v '$(PYTHON)' >/dev/null || { echo "error: $(PYTHON) must be on PATH; install Python 3.11 or newer" >&2; exit 2; }; \
	 '$(PYTHON)' tools/bootstrap.py --venv '$(VENV)'
HWFLOW = @'$(VENV)/bin/hwflow'
PYTEST = @'$(VENV)/bin/python' -m pytest -n $(JOBS) --dist worksteal $(if $(MODELS),--models='$(MODELS)')

option        = $(if $(2),--$(1) '$(2)')
EXAMPLE       = models/digits_cnn
MODEL_OPTIONS = '$(or $(MODEL),$(EXAMPLE).onnx)' $(call option,input-shape,$(INPUT_SHAPE)) $(call option,build,$(BUILD)) $(ARGS)
DATA_OPTIONS  = $(MODEL_OPTIONS) $(call option,data,$(or $(DATA),$(if $(MODEL),,$(EXAMPLE).npz))) $(call option,settings,$(SETTINGS)) $(call option,bits,$(BITS))
BOARD_OPTIONS = $(DATA_OPTIONS) $(call option,board,$(BOARD)) $(call option,transport,$(TRANSPORT)) $(call option,plan,$(PLAN))

.DEFAULT_GOAL := help
.PHONY: help sim synth report explore reweight program run serve check data info quantize golden build boards doctor test test-all fuzz test-lowest upgrade prove bench lint docs site train wheel clean distclean

help: ## list the targets
	@echo 'hwflow: an ONNX model in; bit-exact RTL simulation and a bitstream out.'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'Variables:'
	@echo '  MODEL=x.onnx   the model; without it, the example models/digits_cnn.onnx and its data'
	@echo '  DATA=x.npz     inputs, labels and calibration data (docs/data-files.md)'
	@echo '  SOURCE=folder  for data: pictures, recordings, a table or a NumPy file'
	@echo '  BITS=w or w,a  bits of all weights and activations, 1 to 8; SETTINGS=x.yaml has them by layer'
	@echo '  BOARD=name     see `make boards`'
	@echo '  TRANSPORT=kind the way from the host to the board, as uart; without it, the first of the board'
	@echo '  PLAN=x.yaml    an edited plan instead of the one that hwflow makes'
	@echo '  PORT=/dev/ttyUSB0   for run: the serial port of the board'
	@echo '  INPUT_SHAPE=name=1,3,32,32   fixes a shape that the model leaves open'
	@echo '  FRAMES=n  SEED=n  WAVES=1    for sim: how many frames, which random stalls, write waves'
	@echo '  CLOCK=MHz      for synth: the clock of the core, or "board"; FLASH=1 for program: to stay'
	@echo '  SEEDS=n        for synth: place and route from so many seeds, and keep the fastest'
	@echo '  BASE=x.onnx    for reweight: the first model, which was synthesized with ARGS=--reweightable'
	@echo '  BUILD=dir      where results go (build)      ARGS="..."  further options of the command'
	@echo '  MODELS=dir     for tests and bench: a folder of third-party models with a manifest.yaml'

sim: ## simulate the RTL of MODEL and compare every stage, bit for bit [DATA BOARD PLAN FRAMES SEED WAVES]
	$(SETUP) --compiler
	$(HWFLOW) sim $(BOARD_OPTIONS) $(call option,frames,$(FRAMES)) $(call option,seed,$(SEED)) $(if $(filter-out 0,$(WAVES)),--waves)

synth: ## make the bitstream of MODEL for BOARD [DATA PLAN SEED SEEDS CLOCK]
	$(SETUP) --extras synth
	$(HWFLOW) synth $(BOARD_OPTIONS) $(call option,seed,$(SEED)) $(call option,seeds,$(SEEDS)) $(call option,clock,$(CLOCK))

data: ## make the data file DATA (data.npz) for MODEL of SOURCE, a folder or file [ARGS]
	$(SETUP) --extras data
	$(HWFLOW) data '$(or $(MODEL),$(EXAMPLE).onnx)' $(if $(SOURCE),'$(SOURCE)') $(call option,output,$(DATA)) $(ARGS)

report: ## write a page that shows the whole design of MODEL for BOARD [DATA PLAN]
	$(SETUP)
	$(HWFLOW) report $(BOARD_OPTIONS)

explore: ## compare designs of MODEL on many boards: ARGS='--frames 30' names the smallest that is enough [DATA]
	$(SETUP) --extras explore
	$(HWFLOW) explore $(MODEL_OPTIONS) $(call option,data,$(or $(DATA),$(if $(MODEL),,$(EXAMPLE).npz)))

reweight: ## put the retrained MODEL into the routed design of BASE [DATA BOARD]
	$(SETUP) --extras synth
	$(HWFLOW) reweight $(MODEL_OPTIONS) $(call option,data,$(DATA)) $(call option,board,$(BOARD)) $(call option,base,$(BASE))

program: ## put the bitstream of MODEL onto BOARD [FLASH=1]
	$(SETUP) --extras program
	$(HWFLOW) program '$(or $(MODEL),$(EXAMPLE).onnx)' $(call option,board,$(BOARD)) $(call option,build,$(BUILD)) $(if $(filter-out 0,$(FLASH)),--flash) $(ARGS)

run: ## run DATA through MODEL on the board at PORT, against the golden model [BOARD]
	$(SETUP)
	$(HWFLOW) run $(MODEL_OPTIONS) $(call option,data,$(or $(DATA),$(if $(MODEL),,$(EXAMPLE).npz))) $(call option,port,$(PORT)) $(call option,board,$(BOARD))

serve: ## serve MODEL over HTTP on the board at PORT, or on simulated ones: ARGS='--simulate 2' [DATA BOARD]
	$(SETUP) --compiler --extras serve
	$(HWFLOW) serve $(MODEL_OPTIONS) $(call option,data,$(or $(DATA),$(if $(MODEL),,$(EXAMPLE).npz))) $(call option,port,$(PORT)) $(call option,board,$(BOARD))

check: ## check MODEL against the ONNX rules
	$(SETUP)
	$(HWFLOW) check $(MODEL_OPTIONS)

info: ## say what is in MODEL
	$(SETUP)
	$(HWFLOW) info $(MODEL_OPTIONS)

quantize: ## make the integer graph of MODEL [DATA BITS SETTINGS]
	$(SETUP)
	$(HWFLOW) quantize $(DATA_OPTIONS)

golden: ## run the integer golden model on DATA [BITS SETTINGS]
	$(SETUP)
	$(HWFLOW) golden $(DATA_OPTIONS)

build: ## plan the stages of MODEL and generate the Verilog [DATA BOARD PLAN]
	$(SETUP)
	$(HWFLOW) build $(BOARD_OPTIONS)

boards: ## list the boards
	$(SETUP)
	$(HWFLOW) boards $(ARGS)

doctor: ## say what is installed and what is missing
	$(SETUP)
	$(HWFLOW) doctor $(ARGS)

test: ## run the tests but the slow ones [MODELS JOBS ARGS]
	$(SETUP) --compiler --extras dev,synth
	$(PYTEST) -m 'not slow' $(ARGS)

test-all: ## run all tests: every board, wheel, whole models; after an interruption, continue [MODELS JOBS ARGS]
	$(SETUP) --compiler --extras dev,synth
	$(PYTEST) --resume=build/test-all.txt $(ARGS)

fuzz: ## run the random tests with other seeds, SEEDS of them from SEED on; a failure names its seed [MODELS JOBS ARGS]
	$(SETUP) --compiler --extras dev,synth
	$(PYTEST) -m seeds --seeds='$(or $(SEED),1000):$(or $(SEEDS),20)' $(ARGS)

test-lowest: ## run the tests but the slow ones with the lowest versions that pyproject.toml allows [JOBS ARGS]
	@command -v '$(PYTHON)' >/dev/null || { echo "error: $(PYTHON) must be on PATH; install Python 3.11 or newer" >&2; exit 2; }
	@mkdir -p build && '$(PYTHON)' tools/lowest.py > build/lowest.txt
	@'$(PYTHON)' tools/bootstrap.py --venv '$(VENV)-lowest' --compiler --extras dev,synth --constraints build/lowest.txt
	@'$(VENV)-lowest/bin/python' -m pytest -n $(JOBS) --dist worksteal -m 'not slow' $(ARGS)

upgrade: ## install the newest versions and write them to constraints.txt; keep it when `make test` passes
	$(SETUP) --compiler --extras dev,synth --upgrade

prove: ## prove the units for all inputs and all stalls, and print a table [JOBS ARGS]
	$(SETUP) --extras prove
	@'$(VENV)/bin/python' -m proofs --jobs '$(JOBS)' $(ARGS)

bench: ## measure, and write docs/measurements and docs/results.md [MODELS ARGS]
	$(SETUP) --compiler --extras dev,synth
	@'$(VENV)/bin/python' -m bench $(call option,models,$(MODELS)) $(ARGS)

lint: ## check style and types
	$(SETUP) --extras dev
	@'$(VENV)/bin/python' -m ruff check .
	@'$(VENV)/bin/python' -m mypy

docs: ## write what documents take from code and data: docs/operators.md, docs/results.md, tables of README.md
	$(SETUP)
	@'$(VENV)/bin/python' tools/operator_support.py
	@'$(VENV)/bin/python' -m bench.pages

site: ## build the documentation site, into build/site
	$(SETUP) --extras docs
	@'$(VENV)/bin/python' tools/site_build.py

train: ## train the example models again, into models/
	$(SETUP) --extras train
	@'$(VENV)/bin/python' models/train_digits.py

wheel: ## build the wheel, into dist/
	$(SETUP)
	@'$(VENV)/bin/python' -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove results and caches
	rm -rf build dist .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis ./*.egg-info
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment as well
	rm -rf '$(VENV)' '$(VENV)-lowest'
