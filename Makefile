# One entry point. What it installs goes to .venv, target and the cargo cache: docs/install.md, 'What gets installed'.
SHELL := /bin/bash
PYTHON ?= python3
VENV := $(CURDIR)/.venv
# The build of HDF5 wants CMake 3.26 or newer, which comes with .venv.
export PATH := $(VENV)/bin:$(HOME)/.cargo/bin:$(PATH)
export KNARR_PYTHON := $(VENV)/bin/python
KNARR := target/release/knarr
# HDF5 opens every library of a folder on its plugin path: the plugin lies alone.
PLUGINS := target/release/hdf5-plugins

CAPI := target/release/capi
PREFIX ?= /usr/local

.PHONY: all setup build capi install demo test quick soak check lint bench docs clean

all: build

setup: $(VENV)/.ready

$(VENV)/.ready: tools/requirements.txt tools/setup.sh
	PYTHON=$(PYTHON) tools/setup.sh
	touch $@

# One build of all that is installed: packages built apart would each build their dependencies anew, with other features.
build: setup
	cargo build --release --locked -p knarr-cli -p knarr-h5filter -p knarr-preload -p knarr-dtf -p knarr-python \
	  -p knarr-capi -p knarr-capi-static
	install -D -s target/release/libknarr_h5.so $(PLUGINS)/libknarr_h5.so
	tools/build-mpi.sh target/release

# Header, Fortran module, libraries and pkg-config file for C and Fortran programs.
capi: build
	tools/install-capi.sh $(CAPI)

# The command and what it uses, and what C and Fortran programs need.
install: build capi
	tools/install-program.sh "$(DESTDIR)$(PREFIX)"
	tools/install-capi.sh "$(DESTDIR)$(PREFIX)"

# The main job on real files.
demo: build
	tools/demo.sh

# All tests: Rust, then other people's readers and writers around the built program.
test: build capi python
	cargo test --release --locked --workspace --tests
	$(KNARR_PYTHON) -m pytest -q -n auto --dist worksteal tests

# What has changed, within minutes: AREA=NAME names an area of tests/areas.toml, a crate or a file of tests.
quick:
	$(KNARR_PYTHON) tools/quick.py $(AREA)

# Kills and fuzzers, as often as TIMES says: hours.
TIMES ?= 2000
soak: build python capi
	tools/soak.sh $(TIMES)

.PHONY: python
python: build
	install -D -s $(PLUGINS)/libknarr_h5.so crates/python/python/knarr/plugins/libknarr_h5.so
	tools/install-program.sh crates/python/program/data crates/python/program/scripts
	cd crates/python && maturin build --release --locked -q -o ../../target/wheels
	pip install -q --force-reinstall --no-deps target/wheels/knarr-*.whl

# What a change must pass besides the tests.
check: lint
	tools/fuzz.sh 10

# Format and lints.
lint: setup
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	ruff check .
	ruff format --check .

# All pages as a site, target/book/index.html. An mdbook that is installed already is used as it is.
MDBOOK := target/mdbook/bin/mdbook

docs: $(MDBOOK)
	$(PYTHON) tools/book.py target/book-src
	$(MDBOOK) build docs

$(MDBOOK):
	mkdir -p $(@D)
	if found=$$(command -v mdbook); then ln -sf "$$found" $@; else cargo install -q --locked mdbook --version 0.5.4 \
	  --no-default-features --features search --root target/mdbook; fi

bench: build python
	bench/setup.sh
	$(KNARR_PYTHON) bench/data.py
	$(KNARR_PYTHON) bench/run.py repack
	$(KNARR) repack bench/inputs/variables.nc -o bench/inputs/grid.nc --chain grid --portable knarr --force
	$(KNARR_PYTHON) bench/run.py codecs --knarr bench/inputs/grid.nc
	$(KNARR_PYTHON) bench/run.py choice
	$(KNARR_PYTHON) bench/run.py model
	$(KNARR_PYTHON) bench/run.py pipeline
	$(KNARR_PYTHON) bench/run.py library
	$(KNARR_PYTHON) bench/run.py plugin
	$(KNARR_PYTHON) bench/run.py write
	$(KNARR_PYTHON) bench/run.py overhead
	$(KNARR_PYTHON) bench/run.py lossy
	$(KNARR_PYTHON) bench/run.py green
	$(KNARR_PYTHON) bench/run.py memory

clean:
	rm -rf target .venv bench/.codes-venv bench/inputs
