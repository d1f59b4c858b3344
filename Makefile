# Every command sets up what it needs: a fresh machine with Python 3.11+ and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make

.PHONY: demo test check format bench studio soak clean

$(STAMPS)/venv:
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# The command line alone: what `make demo` needs.
$(STAMPS)/run: $(STAMPS)/venv pyproject.toml constraints.txt
	$(BIN)/pip install -q -c constraints.txt -e . -C editable_mode=strict
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run
	$(BIN)/pip install -q -c constraints.txt --group dev
	@touch $@

demo: $(STAMPS)/run
	$(BIN)/langgraph-compaction demo

test: $(STAMPS)/dev
	$(BIN)/pytest

format: $(STAMPS)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(MAKE) test
	$(BIN)/python notebooks/run.py

bench: $(STAMPS)/dev
	$(BIN)/python benchmarks/turn_cost.py

studio: $(STAMPS)/dev
	$(BIN)/langgraph dev

clean:
	rm -rf $(VENV) $(STAMPS) build *.egg-info
