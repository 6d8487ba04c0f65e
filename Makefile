# Front doors of the project. Each target makes the environment it needs first; that costs nothing once it is right.
# Variables: PYTHON (interpreter that makes .venv), PYTEST_ARGS (passed to pytest), JOBS (how many tests at once),
# ARGS (passed to `mosaic train` and the benchmarks).

PYTHON ?= python3
PYTEST_ARGS ?=
JOBS ?= 2
ARGS ?=

BIN := .venv/bin
SETUP := $(PYTHON) tools/setup_environment.py

.DEFAULT_GOAL := help
.PHONY: help demo test check bench coverage-matrix screenshots gui setup setup-gui setup-dev proto clean distclean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## train PPO on CartPole-v1 through the daemon and print a summary
	@$(BIN)/mosaic train ppo --env-id CartPole-v1 --total-timesteps 50000 --run-name demo --summary $(ARGS)

test: setup-dev ## run the tests; PYTEST_ARGS="-k name -x" narrows them
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

check: setup-dev ## lint, formatting, types, import rules, freshness of the generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/generate_proto.py --check

bench: setup-dev ## run the benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)

coverage-matrix: setup-dev ## run every algorithm briefly through the daemon and write docs/coverage.md
	@$(BIN)/python tools/coverage_matrix.py $(ARGS)

gui: setup-gui ## open the cockpit
	@$(BIN)/mosaic gui

screenshots: setup-dev ## take pictures of every screen of the cockpit into docs/screenshots
	@$(BIN)/python -m tools.screenshots $(ARGS)

setup-gui: ## make .venv with what the cockpit needs as well
	@$(SETUP) --profile gui

setup: ## make .venv with what training needs
	@$(SETUP) --profile demo

setup-dev: ## make .venv with what tests and checks need as well
	@$(SETUP) --profile dev

proto: setup-dev ## generate the gRPC code from mosaic_protocol/proto/trainer.proto
	@$(BIN)/python tools/generate_proto.py

clean: ## remove caches and build products; runs under var/ stay
	@find . \( -path ./.venv -o -path ./.git -o -path ./var \) -prune -o -type d -name __pycache__ -print0 | xargs -0 rm -rf
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

distclean: clean ## remove the environment as well; runs under var/ stay
	@rm -rf .venv .venv.lock
