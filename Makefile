# The commands of this project; README.md says what each is for.
.PHONY: demo test bench findings setup clean

CARGO ?= cargo
PERYTON = $(CARGO) run --quiet --release --package peryton --
DESIGNS = ssd-only hdd-only linear tiering caching-back caching-through
DEMO_TRACE = examples/traces/pgbench-ext4.parquet

setup:
	@scripts/setup.sh

# Six designs on a recorded PostgreSQL trace: a table here, the full report in report/demo.json.
demo: setup
	@$(CARGO) build --release --package peryton
	@mkdir -p report
	$(PERYTON) trace info $(DEMO_TRACE)
	$(PERYTON) sim $(DESIGNS:%=examples/designs/%.toml) --trace $(DEMO_TRACE) --replay sync --warm-up \
		--json report/demo.json
	@echo "The full report is in report/demo.json."

test: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# One benchmark per hot path; requests per second on one core.
bench: setup
	$(CARGO) bench --workspace

# The figures of docs/findings/, made anew; a quarter of an hour on two cores.
findings: setup
	@$(CARGO) build --release --package peryton
	python3 scripts/findings/greendm.py

clean:
	$(CARGO) clean
	rm -rf report
