# `make` or `make help` lists the targets. All of them work in .venv, which the first one makes.
PYTHON ?= python3
BIN := .venv/bin
STYLED := nbs tests studies benchmarks docs setup.py .ci/check_types.py

.PHONY: help demo test coverage soak docs lint notebook bench peers reproduce clean

help:
	@echo "make demo   fit a small data set and draw it"
	@echo "make test   run the notebooks, the examples in docstrings and the tests"
	@echo "make coverage   lines of the package that the tests do not run; TESTS=tests/test_sites.py for some"
	@echo "make soak   ten minutes of random problems and accidents; HOURS=1 for longer"
	@echo "make docs   build the site into _docs/"
	@echo "make lint   check the style and the types of notebooks, modules, tests and tools"
	@echo "make notebook NB=nbs/06_regression.ipynb   edit a page as text, and run it"
	@echo "make reproduce  small versions of the paper's experiments, with tables and figures in results/"
	@echo "make bench  measure speed against the floor set by BLAS"
	@echo "make peers  measure speed beside other packages, where they are installed"
	@echo "make clean  remove what the other targets made"

.venv/.installed: settings.ini setup.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/sparse-pep demo

# several processes: one thread of BLAS for each, because waiting threads took a third of the time
test: export OMP_NUM_THREADS = 1
test: .venv/.installed
	$(BIN)/nbdev_test --do_print --n_workers 2
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder tests

TESTS ?= tests
coverage: export OMP_NUM_THREADS = 1
coverage: .venv/.installed
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --cov=sparse_pep --cov-report=term-missing:skip-covered $(TESTS)

soak: export OMP_NUM_THREADS = 1
soak: .venv/.installed
	$(BIN)/python tests/soak.py $(if $(HOURS),--minutes $$(($(HOURS) * 60)))

docs: .venv/.installed
	if command -v quarto >/dev/null; then $(BIN)/nbdev_docs; else $(BIN)/python -m docs.build; fi

lint: .venv/.installed
	$(BIN)/ruff format --check $(STYLED)
	$(BIN)/ruff check $(STYLED)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python .ci/check_types.py

notebook: TEXT = build/$(basename $(notdir $(NB))).py
notebook: .venv/.installed
	@test -f "$(NB)" || { echo "say which page: make notebook NB=nbs/06_regression.ipynb"; exit 1; }
	@mkdir -p build
	@if [ ! -f $(TEXT) ]; then $(BIN)/jupytext --quiet --to py:percent -o $(TEXT) $(NB); echo "edit $(TEXT), then call this again"; exit 0; fi; \
	if [ $(TEXT) -nt $(NB) ]; then $(BIN)/jupytext --quiet --update --from py:percent --to ipynb -o $(NB) $(TEXT); fi; \
	$(BIN)/nbdev_export && $(BIN)/jupyter nbconvert --log-level WARN --to notebook --execute --inplace $(NB) && $(BIN)/jupyter nbconvert --log-level WARN --to notebook --coalesce-streams --inplace $(NB) && $(BIN)/nbdev_clean && $(BIN)/nbdev_export && $(BIN)/jupytext --quiet --to py:percent -o $(TEXT) $(NB)

reproduce: .venv/.installed
	$(BIN)/python -m studies --quick

bench: .venv/.installed
	$(BIN)/python -m benchmarks.regression

peers: .venv/.installed
	$(BIN)/python -m benchmarks.peers

clean:
	rm -rf .venv _docs _proc build dist .coverage .pytest_cache .ruff_cache .hypothesis sparse_pep.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
