# The commands of this project; README.md says what each is for.
.PHONY: demo test torture mutants bench findings fuzz libfuzzer setup clean

CARGO ?= cargo
PERYTON = $(CARGO) run --quiet --release --package peryton --
DESIGNS = ssd-only hdd-only linear tiering caching-back caching-through
FUZZ_TARGETS = $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_CASES ?= 1000000
DEMO_TRACE = examples/traces/pgbench-ext4.parquet

setup:
	@scripts/setup.sh

# Six designs on a recorded PostgreSQL trace: a table here, a page in report/demo.html, all figures in report/demo.json. Then one of them runs,
# on two files.
demo: setup
	@$(CARGO) build --release --package peryton
	@mkdir -p report
	$(PERYTON) trace info $(DEMO_TRACE)
	$(PERYTON) sim $(DESIGNS:%=examples/designs/%.toml) --trace $(DEMO_TRACE) --replay sync --warm-up \
		--json report/demo.json --report report/demo.html
	@echo "Open report/demo.html to see them side by side; every figure is in report/demo.json."
	@python3 scripts/demo.py --peryton "$${CARGO_TARGET_DIR:-target}/release/peryton" --trace $(DEMO_TRACE) --requests 8000

test: setup
	@scripts/setup.sh test
	$(CARGO) fmt --all --check
	rustfmt --edition 2024 --check crates/policy/src/replacement/*.rs crates/policy/src/admission/rules/*.rs
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Simulated power losses for SECONDS; one seed (SEEDS=5) is replayed step by step.
SECONDS ?= 60
SEEDS ?= 0..1000000000
torture: setup
	$(CARGO) run --quiet --profile torture --package peryton-sim --example torture -- \
		--seconds $(SECONDS) --seeds $(SEEDS) $(if $(findstring ..,$(SEEDS)),,--verbose)

# Makes one mistake after the other in the engine: each must be noticed by the simulated power losses.
mutants: setup
	$(CARGO) run --quiet --profile torture --package peryton-sim --features mutants --example mutants

# One benchmark per hot path; requests per second on one core. Then the drive beside qemu-nbd, and what its moves cost.
bench: setup
	$(CARGO) bench --workspace
	@$(CARGO) build --release --package peryton
	python3 scripts/bench/nbd.py
	python3 scripts/bench/moves.py

# The figures of docs/findings/, made anew; some hours on two cores, most of them for the mixed arrays and the planner.
findings: setup
	@$(CARGO) build --release --package peryton
	python3 scripts/findings/greendm.py
	python3 scripts/findings/griffin.py
	python3 scripts/findings/mixed_array.py
	python3 scripts/findings/mixedstore_dc.py
	python3 scripts/findings/greenest.py
	python3 scripts/findings/mixcp.py
	python3 scripts/findings/tuning.py

# Hostile bytes, made from seeds, for every parser that strangers' bytes reach; needs no nightly compiler.
fuzz: setup
	@for target in $(FUZZ_TARGETS); do echo "$$target:"; \
		$(CARGO) run --quiet --release --manifest-path fuzz/Cargo.toml --bin $$target -- $(FUZZ_CASES) || exit 1; \
	done

# The same with bytes that libFuzzer chooses, to reach code that it has not seen yet: needs a nightly compiler and
# `cargo install cargo-fuzz`. It begins with a thousand of the inputs above and goes on with what it kept (fuzz/corpus).
libfuzzer: setup
	@for target in $(FUZZ_TARGETS); do mkdir -p fuzz/corpus/$$target; \
		$(CARGO) run --quiet --release --manifest-path fuzz/Cargo.toml --bin $$target -- 1000 0 fuzz/corpus/$$target && \
		cargo +nightly fuzz run --fuzz-dir fuzz --sanitizer none --no-trace-compares $$target -- \
			-runs=$(FUZZ_CASES) -max_len=1024 -timeout=20 -rss_limit_mb=1024 || exit 1; \
	done

clean:
	$(CARGO) clean
	rm -rf report
