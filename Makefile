# `make` lists what there is. Everything runs in .venv and keeps its data under build/, except that
# `make test-real` installs real servers and a browser with apt.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-data test-real test-torch example-ecology explore check fix bench evidence docs lock screenshots clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

.venv/.run: pyproject.toml constraints.txt
	@echo 'setting up .venv: steward and its packages, about 900 MB; a minute or two' >&2
	@test -d .venv || $(PYTHON) -m venv .venv || { \
	  echo 'error: cannot make .venv; Debian needs: apt-get install python3-venv' >&2; exit 2; }
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/.setup: .venv/.run
	@echo 'installing what tests and benchmarks need, about 500 MB more' >&2
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench,scale]'
	@echo 'compiling the replay engine, wire formats and rules, once: about a minute' >&2
	@$(BIN)/python -c 'from steward.sim.lab.rigid.replay import warm_up; warm_up()'
	@$(BIN)/python -c 'from steward.observe.receive import warm_up; warm_up()'
	@$(BIN)/python -c 'from steward.sim.serving.simulate import warm_up; warm_up()'
	@$(BIN)/steward rules test rules/telemetry >/dev/null
	@touch $@

setup: .venv/.setup ## make .venv with all that `make test` and `make bench` need

run: .venv/.run ## start steward with a simulated cluster and open its dashboard
	@echo 'starting; the first start on a machine compiles for up to a minute' >&2
	$(BIN)/steward up --demo --data build/run-$$(date +%Y%m%d-%H%M%S)

demo: .venv/.run ## one minute of a simulated cluster in the terminal, then what it was worth
	rm -rf build/demo
	$(BIN)/steward up --demo --speed 120 --for 60 --no-browser --data build/demo
	$(BIN)/steward report --data build/demo

test: .venv/.setup ## the tests that need nothing but Python
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-data: .venv/.setup ## the tests on real traces, from STEWARD_DATA or ../shared/data
	$(BIN)/python -m pytest -m data

test-real: .venv/.setup ## the tests with real servers and a real browser (installs them)
	scripts/install-real-parts
	$(BIN)/python -m pytest -m real || { \
	  echo 'these failed; each is run once more, and has to pass now (docs/decisions/0039)' >&2; \
	  $(BIN)/python -m pytest -m real --last-failed --last-failed-no-failures=none; }

test-torch: .venv/.setup ## the tests of real trainings (installs the extra `torch`, 700 MB)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]'
	$(BIN)/python -m pytest -m torch

example-ecology: .venv/.setup ## animals at camera traps, edge to cloud to HPC, as a page (installs the extra `torch`)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]'
	PYTHONPATH=examples $(BIN)/python -m ecology --out build/ecology

explore: .venv/.setup ## the tests of laws, on new random examples (`make test` repeats its own)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'hypothesis and not real and not data' --hypothesis-profile=explore

check: .venv/.setup ## what .ci/run begins with: format, lint, types, import contracts, tests with coverage, docs drift
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=
	$(BIN)/python -m coverage report --fail-under=100 --show-missing --skip-covered --include='src/steward/model/*,src/steward/decide/*,src/steward/act/guard.py'
	$(BIN)/python scripts/make_reference.py --check
	$(BIN)/python scripts/make_deploy.py --check
	$(BIN)/python scripts/make_manual.py --check

fix: .venv/.setup ## repair what can be repaired by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.setup ## measure every claim; results in benchmarks/results
	$(BIN)/python benchmarks/run_all.py

evidence: .venv/.setup ## collect all results, run briefly what has none, and write build/evidence.html
	$(BIN)/python benchmarks/evidence.py --run

docs: .venv/.setup ## write docs/reference, deploy/ and share/ anew
	$(BIN)/python scripts/make_reference.py
	$(BIN)/python scripts/make_deploy.py
	$(BIN)/python scripts/make_manual.py

screenshots: .venv/.setup ## make the pictures of the README with Chromium
	scripts/install-real-parts
	$(BIN)/python scripts/screenshot.py

lock: ## write constraints.txt anew with the newest versions
	$(PYTHON) scripts/make_lock.py

clean: ## remove .venv and everything that was built
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
