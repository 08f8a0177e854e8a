# Two commands for a fresh machine: `make try` shows the main job, `make check` is the gate.
# `make check-all`, every night and before a release, runs what the gate leaves out, too.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# Where bytecode is not kept, each process compiles what it imports, and each run all tests, which takes a minute of CPU.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: try check check-all locked lint types typed style exam docs packages release bench torture soak attack frameworks clients conformance suites mutants clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.developed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]'
	$(BIN)/python -m compileall -q -j 2 $(VENV)/lib src || true # a package may hold files for another Python
	touch $@ $(VENV)/.installed

$(VENV)/.developed-all: $(VENV)/.developed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev-all]'
	touch $@

# An environment of its own: what makes mutants brings many packages that nothing else needs.
$(VENV)-mutants/.developed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-mutants
	$(VENV)-mutants/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 'mutmut>=3.8,<4'
	touch $@

# `make locked check` is the gate with exactly the packages of `uv.lock`.
locked:
	$(PYTHON) -m venv $(VENV)
	UV_PROJECT_ENVIRONMENT=$(VENV) uv sync --quiet --locked --inexact --extra dev
	touch $(VENV)/.installed $(VENV)/.developed

try: $(VENV)/.installed
	@$(BIN)/python -m treering try

check: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Types on one core; on the other the rest, and bytecode of the tests, which both workers would make otherwise.
lint: $(VENV)/.developed
	$(MAKE) --jobs 2 types style

types: $(VENV)/.developed
	$(BIN)/mypy

# What a type checker other than mypy makes of the package, in minutes.
typed: $(VENV)/.developed-all
	$(BIN)/python tools/typed.py

style: $(VENV)/.developed
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/python tools/ratchet.py
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/python -m pytest --collect-only --quiet >/dev/null

# The questions in .treering/exam, asked by words alone of a space of this repository: half a minute of CPU. What is
# required is what was measured, less one or two questions. A shallow clone has no history, by which files are ranked, too.
EXAM_SPACE = sqlite:.benchmarks/exam/space.db

exam: export TREERING_SPACE = $(EXAM_SPACE)
exam: export TREERING_BACKGROUND = 0
exam: export TREERING_RESIDENT = 0
exam: $(VENV)/.installed
	rm -rf .benchmarks/exam
	mkdir -p .benchmarks/exam
	$(BIN)/treering init
	$(BIN)/treering ingest .
	$(BIN)/treering exam run --words --no-keep --least recall@5=56 --least recall@10=62 --least refused=75 \
		--least answered=90 --least clean=92

# Everything at full size, in hours: all cases, all examples, branch coverage with a threshold, the frameworks that need
# environments of their own, the attacks, and the rounds of killing.
check-all: $(VENV)/.developed-all lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not torture" --hypothesis-profile=full --cov --cov-report=term
	$(MAKE) typed attack frameworks torture

# The documentation as a site, in `site`; `python -m http.server -d site` shows it, with its search.
docs: $(VENV)/.developed-all
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# The packages of a release in `dist`, checked: built twice to the same bytes, and the wheel used in a new environment.
packages: $(VENV)-packages/.installed
	$(VENV)-packages/bin/python tools/packages.py

$(VENV)-packages/.installed: tools/packages.py
	$(PYTHON) -m venv $(VENV)-packages
	$(VENV)-packages/bin/python -m pip install --quiet --disable-pip-version-check \
		'build>=1.3,<2' 'check-wheel-contents>=0.6.3,<0.7' 'cyclonedx-bom>=7,<8' 'twine>=6,<8'
	touch $@

# `make release VERSION=1.2.3`: changelog, page, version and promises from what lies in `changes/`; nothing is committed.
release: $(VENV)/.developed-all
	$(BIN)/python tools/release.py $(VERSION)

bench: $(VENV)/.developed
	$(BIN)/python -m benchmarks

torture: $(VENV)/.developed
	$(BIN)/python -m pytest -m torture --hypothesis-profile=full tests

soak: $(VENV)/.developed
	$(BIN)/python tests/soak/soak.py
	$(BIN)/python tests/soak/soak.py --kills 20
	$(BIN)/python tests/soak/discussion_soak.py
	$(BIN)/python tests/soak/memory_fuzz.py

attack: $(VENV)/.developed
	$(BIN)/python -m attacks

# `make frameworks FRAMEWORKS=llama_index` tests the adapter of one; by default those of all that `dev` leaves out.
frameworks: $(VENV)/.developed
	$(BIN)/python tests/run_frameworks.py $(FRAMEWORKS)

# Coding agents as they are published, against a scripted model; needs npm, and half a gigabyte for their programs.
CLIENTS = @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai @github/copilot
clients: $(VENV)/.developed
	npm install --no-audit --no-fund --no-save --prefix $(VENV)-clients $(CLIENTS)
	PATH="$(abspath $(VENV)-clients)/node_modules/.bin:$$PATH" $(BIN)/python -m pytest -n 0 -m nightly tests/clients

# The conformance suite of the Model Context Protocol, with the Node that it needs.
conformance: $(VENV)/.developed
	npm install --silent --no-audit --no-fund --prefix $(VENV)/npm @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22
	PATH="$(CURDIR)/$(VENV)/npm/node_modules/.bin:$$PATH" $(BIN)/python -m pytest tests/surfaces/http/test_mcp_conformance.py

# Tests of other projects for interfaces that Treering offers; `make suites SUITES=langgraph_store` runs one of them.
suites: $(VENV)/.developed
	$(BIN)/python tests/suites/run.py $(SUITES)

# `make mutants MUTANTS=core/scope.py` tests those of one module, in minutes; several may be named.
mutants: $(VENV)-mutants/.developed
	$(VENV)-mutants/bin/python tests/mutants.py $(MUTANTS)

clean:
	rm -rf $(VENV) $(VENV)-mutants $(VENV)-packages $(VENV)-clients dist .venv-frameworks mutants site .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
