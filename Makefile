# Front doors of the project. Each target makes the environment it needs first; that costs nothing once it is right.
# Variables: PYTHON (interpreter that makes .venv), TORCH_INDEX (URL of the package index to take torch from),
# PYTEST_ARGS (passed to pytest), JOBS (how many tests at once), ARGS (passed to `mosaic train`, the nemesis and the
# benchmarks, the constraints).

PYTHON ?= python3
PYTEST_ARGS ?=
JOBS ?= 2
ARGS ?=

ifdef TORCH_INDEX
export MOSAIC_TORCH_INDEX := $(TORCH_INDEX)
endif

BIN := .venv/bin
# A worker runs whole files, and the longest begin first (gym_gui/tests/support/longest_files_first.py).
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Where PYTHON is named in the call, an environment that another version made does not do.
SETUP := $(PYTHON) tools/setup_environment.py $(if $(filter command,$(origin PYTHON)),--this-python)

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast coverage nemesis nightly check bench coverage-matrix screenshots cockpit-walk docs gui setup setup-gui setup-dev compiled constraints proto clean distclean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## train PPO on CartPole-v1 through the daemon and print a summary
	@$(BIN)/mosaic train ppo --env-id CartPole-v1 --total-timesteps 50000 --run-name demo --summary $(ARGS)

test: compiled ## run the tests; PYTEST_ARGS="-k name -x" narrows them
	@$(PYTEST) $(PYTEST_ARGS)

test-fast: compiled ## the tests without those that start daemons, break things, train or take long
	@$(PYTEST) -m "not slow and not nightly" $(PYTEST_ARGS)

coverage: compiled ## run the tests and say which lines they reach, also in the processes they start; build/coverage has the pages
	@$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html $(PYTEST_ARGS)

nemesis: setup-dev ## break a real daemon for some minutes and check every promise; ARGS="--minutes 30 --seed 7 --where tmpfs"
	@$(BIN)/python -m tools.nemesis $(ARGS)

nightly: compiled ## the long forms: tests that take too long for every day, and the nemesis for half an hour in two places
	@$(PYTEST) -m nightly $(PYTEST_ARGS)
	@$(BIN)/python -m tools.nemesis --minutes 30 --where tmpfs $(ARGS)
	@$(BIN)/python -m tools.nemesis --minutes 30 --where disk $(ARGS)

check: setup-dev ## lint, formatting, types, import rules, freshness of the generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/import_contracts.py --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/generate_proto.py --check

bench: setup-dev ## run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

coverage-matrix: setup-dev ## run every algorithm briefly through the daemon and write docs/coverage.md
	@$(BIN)/python -m tools.coverage_matrix $(ARGS)

docs: setup-dev ## build the documentation site into build/site; a dead link fails it
	@$(BIN)/python -m tools.build_docs $(ARGS)

gui: setup-gui ## open the cockpit
	@$(BIN)/mosaic gui

screenshots: setup-dev ## take pictures of every screen of the cockpit into docs/screenshots
	@$(BIN)/python -m tools.screenshots $(ARGS)

cockpit-walk: setup-dev ## walk through the cockpit by keys and by mouse; ARGS="--size 1024x600 --theme light"
	@$(BIN)/python -m tools.cockpit_walk --hands keys --out $(or $(OUT),build/cockpit-walk)/keys $(ARGS)
	@$(BIN)/python -m tools.cockpit_walk --hands mouse --out $(or $(OUT),build/cockpit-walk)/mouse $(ARGS)

setup-gui: ## make .venv with what the cockpit needs as well
	@$(SETUP) --profile gui

setup: ## make .venv with what training needs
	@$(SETUP) --profile demo

setup-dev: ## make .venv with what tests and checks need as well
	@$(SETUP) --profile dev

# Tests start hundreds of Python processes; where PYTHONDONTWRITEBYTECODE is set, each would compile the project again.
compiled: setup-dev
	@$(BIN)/python -m compileall -q -j $(JOBS) $(dir $(wildcard */__init__.py))

constraints: setup-dev ## pin what .venv consists of in requirements/constraints.txt; ARGS=--upgrade takes newer ones first
	@$(BIN)/python -m tools.pin_closure $(ARGS)

proto: setup-dev ## generate the gRPC code from mosaic_protocol/proto/trainer.proto
	@$(BIN)/python tools/generate_proto.py

clean: ## remove caches and build products; runs under var/ stay
	@find . \( -path ./.venv -o -path ./.git -o -path ./var \) -prune -o -type d -name __pycache__ -print0 | xargs -0 rm -rf
	@rm -rf build dist MUJOCO_LOG.TXT *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*

distclean: clean ## remove the environment as well; runs under var/ stay
	@rm -rf .venv .venv.lock
