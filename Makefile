# `make` is a convenience; scripts/demo and scripts/test need only a shell and Python.
.DEFAULT_GOAL := help
BIN = $${OMNAI_VENV:-.venv}/bin

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## make .venv with everything the tests need
	@scripts/setup test

.PHONY: test
test: ## check everything: style, types, import contracts, tests
	@scripts/test

.PHONY: lint
lint: setup ## style and format (`ruff check --fix . && ruff format .` repairs)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

.PHONY: types
types: setup ## strict types
	@$(BIN)/mypy

.PHONY: imports
imports: setup ## import contracts
	@$(BIN)/lint-imports

.PHONY: migrate
migrate: setup ## bring the database up to date
	@$(BIN)/omnai db upgrade

.PHONY: demo
demo: ## watch the shipped sample
	@scripts/demo

.PHONY: bench
bench: setup ## measure the pipeline's speed on the sample
	@$(BIN)/omnai bench decode samples/sample.mp4

SECONDS ?= 3600
.PHONY: chaos
chaos: setup ## kill workers, queue and database for an hour and count what is lost (SECONDS=300)
	@$(BIN)/python -m tests.faults.chaos --seconds $(SECONDS)

.PHONY: lock
lock: ## make requirements.txt and requirements-test.txt anew
	@scripts/lock
