# `make` lists the targets. Each installs its requirements, or names them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export PATH := $(PATH):$(HOME)/.cargo/bin

# One feature set for every phase, so that nothing is compiled twice. The documentation includes examples
# for the same reason: without them cargo would omit the features of dev-dependencies and build the
# dependencies again.
SCOPE := --workspace --all-features --locked
SHARED := ../shared
PERF_ARGS ?= --blocks 40000 --logs-per-block 250
SOAK_SECONDS ?= 600

.PHONY: help test test-core check fmt clippy doc tidy bench bench-follow bench-serve bench-isolation bench-projection bench-history demo demo-archive test-s3 test-api test-clients test-ops soak test-fixtures torture fuzz deny advisories

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run every test, after checking or installing the requirements
	@scripts/need cargo cc postgres anvil hardhat chromium nginx
	@scripts/phase "tests" scripts/test

test-core: ## tests of the library crates that need cargo and a C compiler only, for the edit loop
	@scripts/need cargo cc
	@scripts/phase "core tests" scripts/test --core

check: ## everything that must pass before a merge: fmt, clippy, doc, tidy, deny, test
	@scripts/need cargo lints cc postgres anvil hardhat chromium nginx
	@$(MAKE) --no-print-directory fmt
	@$(MAKE) --no-print-directory clippy
	@$(MAKE) --no-print-directory doc
	@$(MAKE) --no-print-directory tidy
	@$(MAKE) --no-print-directory deny
	@$(MAKE) --no-print-directory test

fmt: ## check the formatting
	@scripts/phase "fmt" cargo fmt --all --check

clippy: ## lints, all of them errors
	@scripts/phase "clippy" cargo clippy $(SCOPE) --all-targets --quiet -- -D warnings

doc: ## build the documentation, warnings are errors
	@RUSTDOCFLAGS="-D warnings" scripts/phase "doc" cargo doc $(SCOPE) --exclude chronolith-sim-cli --no-deps --quiet --lib --bins --examples

tidy: ## checks on the repository itself: edges, lengths, unfinished work, paths, licences, traceability
	@scripts/phase "tidy" cargo test $(SCOPE) --quiet --test tidy

bench: ## criterion suites, then the stress run compared with PostgreSQL (PERF_ARGS="--blocks ..." changes it)
	@scripts/need cargo cc postgres
	cargo bench --locked -p chronolith-archive
	cargo run --locked --release -p chronolith-archive --example perf_stress -- $(PERF_ARGS)

bench-follow: ## following chains, compared with a bare client (FOLLOW_ARGS="--divide 10 dense" makes it shorter)
	@scripts/need cargo cc
	cargo bench --locked -p chronolith-node --bench follow -- $(FOLLOW_ARGS)
	cargo bench --locked -p chronolith-evm --bench bodies

bench-serve: ## answers over HTTP, compared with PostgreSQL, Anvil and kizami (SERVE_ARGS="--divide 4 anvil" makes it shorter)
	@scripts/need cargo cc postgres anvil
	cargo bench --locked -p chronolith-node --bench serve -- $(SERVE_ARGS)
	cargo run --locked --release -p chronolith-archive --example clock_scale -- $(CLOCK_ARGS)

bench-isolation: ## what clients wait and what memory is taken under hostile load (ISOLATION_ARGS="--divide 4 gzip" makes it shorter)
	@scripts/need cargo cc
	cargo bench --locked -p chronolith-node --bench isolation -- $(ISOLATION_ARGS)

bench-projection: ## fees into PostgreSQL, compared with Ponder and bare COPY; latency and memory (PROJECTION_ARGS="--scale 0.1 sparse" makes it shorter)
	@scripts/need cargo cc postgres node npm ponder
	cargo bench --locked -p chronolith-node --bench projection -- $(PROJECTION_ARGS)

bench-history: ## the hash index compared with perfect hashing and RocksDB, Stellar with whole ledgers (HISTORY_ARGS="--keys 10000000", LEDGER_ARGS="--ledgers 100" make it shorter)
	@scripts/need cargo cc
	cargo run --locked --release --manifest-path bench/history/Cargo.toml -- $(HISTORY_ARGS)
	cargo bench --locked -p chronolith-node --bench history -- $(LEDGER_ARGS)

demo: ## follow two simulated chains with reorgs (DEMO_ARGS="--seconds 20" limits the time)
	@scripts/need cargo cc
	@cargo run --locked --profile demo --quiet -p chronolith-node -- demo $(DEMO_ARGS)

demo-archive: ## fill an archive with a simulated chain and run a few queries
	@scripts/need cargo cc
	@cargo run --locked --release --quiet -p chronolith-archive --example demo

test-s3: ## the store contract on a real S3 gateway
	@scripts/need cargo cc
	@bash crates/store/tests/s3.sh

test-api: ## test a running node against its OpenAPI description
	@scripts/need cargo cc postgres
	@scripts/phase "interface" scripts/test-api

test-clients: ## ethers, viem, alloy, Ponder and Stellar's client get the same answers from Chronolith as from a node
	@scripts/need cargo cc node npm anvil
	@scripts/phase "clients" clients/run

test-ops: ## alert rules, recording rules and dashboard in a real Prometheus
	@scripts/need prometheus python
	@scripts/phase "operations" scripts/test-ops

soak: ## ten minutes of mixed traffic beside hostile clients while a chain grows: no errors, constant memory (SOAK_SECONDS changes it)
	@scripts/need cargo cc
	CHRONOLITH_SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked --release -p chronolith-node --test soak -- --nocapture

test-fixtures: ## every test, none skipped: fails if ../shared is absent
	@test -d $(SHARED)/fixtures || { echo "test-fixtures: $(SHARED)/fixtures is absent" >&2; exit 1; }
	@scripts/need cargo cc postgres
	@CHRONOLITH_REQUIRE_FIXTURES=1 scripts/phase "tests with fixtures" scripts/test

torture: ## the long forms of crash, property and simulation tests
	@scripts/need cargo cc postgres
	@CHRONOLITH_TORTURE=1 scripts/phase "torture" scripts/test --profile torture

fuzz: ## longer runs of hostile bytes for every decoder
	@scripts/need cargo cc
	@scripts/phase "fuzz" scripts/fuzz

# Not required: it takes minutes to install, and `make tidy` checks the same licences and bans.
deny: ## licences, bans and sources with cargo-deny, if it is installed
	@if cargo deny --version >/dev/null 2>&1; then \
	  scripts/phase "deny" cargo deny --log-level error check licenses bans sources; \
	else \
	  printf '\n==== deny\n---- deny: NOT RUN: cargo-deny is missing; run: cargo install --locked cargo-deny\n'; \
	fi

advisories: ## known vulnerabilities with cargo-deny (not part of check: it fetches its database)
	@cargo deny --version >/dev/null 2>&1 || { echo "cargo-deny is missing; run: cargo install --locked cargo-deny" >&2; exit 1; }
	@cargo deny --log-level error check advisories
