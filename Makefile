# The commands of this project; README.md says what each is for.
.PHONY: demo test test-python test-ray wheel deb dist dist-try publish-try docs figures test-kernel test-kernel-build torture mutants bench soak bench-kernel picture findings mqsim xfstests fuzz libfuzzer setup clean

CARGO ?= cargo
DEMO = $(or $(CARGO_TARGET_DIR),target)/demo/peryton
FUZZ_TARGETS = $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_CASES ?= 1000000
# Modules that a macro declares, which rustfmt does not find by itself.
MACRO_MODULES = $(wildcard crates/trace/src/formats/*.rs crates/policy/src/replacement/*.rs crates/policy/src/admission/rules/*.rs)

setup:
	@scripts/setup.sh

# Asks what to buy for a recorded PostgreSQL database on 40 TB, and serves the answer on two files (scripts/demo.py). The plan, its page
# and its designs are in report/plan. The build leaves out features that the demo does not need, and whole-program optimisation (the
# profile `demo`).
demo: setup
	$(CARGO) build --locked --profile demo --package peryton --no-default-features --features parquet
	@python3 scripts/demo.py --peryton $(DEMO)

test: setup
	@scripts/setup.sh test
	$(CARGO) fmt --all --check -- $(MACRO_MODULES)
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --no-run
	@# Tests wait much of their time, in which the documentation is built at the lowest priority, once they have begun, and packages for
	@# Python are fetched.
	@mkdir -p target; (sleep 20; RUSTDOCFLAGS="-D warnings" nice -n 19 $(CARGO) doc --workspace --no-deps --locked) >target/doc.log 2>&1 & doc=$$!; \
		nice -n 19 python3 scripts/python.py ready >target/ready.log 2>&1 & ready=$$!; \
		$(CARGO) test --workspace --locked --no-fail-fast; tested=$$?; \
		wait $$doc || { cat target/doc.log; exit 1; }; wait $$ready; exit $$tested
	@python3 scripts/python.py test --built
	@python3 scripts/python.py cluster --built tests/test_cluster.py::test_rows_of_a_cluster_are_the_same_bytes_though_a_node_is_killed

# Tests the package for Python alone, or builds its wheel and tries it (target/wheels).
test-python: setup
	@python3 scripts/python.py test
# Tests sweeps of the package on a cluster of Ray that it starts on this machine, and by Optuna; make test runs the first of these tests.
test-ray: setup
	@python3 scripts/python.py cluster
wheel: setup
	@python3 scripts/python.py wheel

# Packages for release in target/dist (docs/install.md): the command for Debian 12 and later, the wheel, the crates, lists of what is
# in them, checksums. dist-try installs them on a clean Debian 12, and compiles them there; publish-try goes through `cargo publish` without publishing.
dist: setup
	@python3 scripts/dist.py build
dist-try:
	@python3 scripts/dist.py try
	@python3 scripts/dist.py try-source
publish-try: setup
	@python3 scripts/dist.py publish

# The documents as a site: target/docs/book/index.html. The first time it builds mdBook, which takes some minutes.
docs: setup
	@python3 scripts/docs.py

# Builds the package for Debian, target/debian/peryton_VERSION_ARCHITECTURE.deb, with cargo-deb, which it installs if it is missing.
deb: setup
	@scripts/deb

# Tests the built drive under a real Linux kernel, through its NBD client, in a virtual machine (scripts/vm): about 20 minutes; CUT=1: at
# most five. TESTS names some of them: block_device, resets, replay, faults, pulled, stress; speed, which checks nothing;
# boot, which boots Debian with the package. Without root, apt-get or a network it says what is
# missing, and skips them.
test-kernel: setup
	@python3 scripts/kernel/run.py $(if $(CUT),--cut) $(TESTS)
# Compiles the program that it tests, and runs nothing.
test-kernel-build:
	@python3 scripts/kernel/run.py --build

# Explores small cases in every order for a quarter of SECONDS, then simulates power losses for SECONDS, of every kind in turn; a single
# seed (SEEDS=5 SCENARIO=failing) is replayed step by step.
SECONDS ?= 60
SEEDS ?= 0..1000000000
SCENARIO ?= $(if $(findstring ..,$(SEEDS)),each,drawn)
torture: setup
	$(if $(findstring ..,$(SEEDS)),$(CARGO) run --quiet --profile torture --package peryton-crash --example explore -- --deep --seconds $$(($(SECONDS) / 4)))
	$(CARGO) run --quiet --profile torture --package peryton-crash --example torture -- \
		--seconds $(SECONDS) --seeds $(SEEDS) --scenario $(SCENARIO) $(if $(findstring ..,$(SEEDS)),,--verbose)

# Makes one mistake after the other in the engine; the simulated power losses must notice each.
mutants: setup
	$(CARGO) run --quiet --profile torture --package peryton-crash --features mutants --example mutants

# Runs a benchmark for each hot path (requests per second on one core), compares the drive with qemu-nbd, and measures how its
# moves delay requests.
bench: setup
	$(CARGO) bench --workspace
	@$(CARGO) build --release --package peryton
	python3 scripts/bench/nbd.py
	python3 scripts/bench/raw.py
	python3 scripts/bench/moves.py
	python3 scripts/bench/page.py
	python3 scripts/bench/scrapes.py
	python3 scripts/bench/process_death.py
	python3 scripts/bench/twin.py
	python3 scripts/scale.py --peryton target/release/peryton

# Clients that behave well beside clients that attack, each for MINUTES, on volumes that are killed again and again.
MINUTES ?= 10
soak: setup
	@scripts/setup.sh test
	@$(CARGO) build --release --package peryton
	python3 scripts/bench/attacks.py --peryton target/release/peryton
	python3 scripts/bench/soak.py --minutes $(MINUTES)

# What the kernel's caches and Peryton leave to the slow disk for the very same requests, and their IOPS from cold, in a virtual machine.
bench-kernel:
	@$(CARGO) build --release --package peryton
	@mkdir -p target/bench; truncate -s 512M target/bench/fast.img
	scripts/vm --disk target/bench/fast.img -- scripts/bench/decisions.sh target/release/peryton
	scripts/vm --count --mem 6000 -- scripts/bench/head-to-head.sh target/release/peryton

# Takes the picture of a report for README.md.
picture: demo
	python3 scripts/picture.py

# Computes the figures of docs/findings/ again; this takes some hours on two cores, most of them for the mixed arrays and the planner.
findings: setup
	@$(CARGO) build --release --package peryton
	python3 scripts/findings/greendm.py
	python3 scripts/findings/griffin.py
	python3 scripts/findings/large_units.py
	python3 scripts/findings/mixed_array.py
	python3 scripts/findings/mixedstore_dc.py
	python3 scripts/findings/greenest.py
	python3 scripts/findings/mixcp.py
	python3 scripts/findings/three_tiers.py
	python3 scripts/findings/flashield.py
	python3 scripts/findings/tuning.py
	python3 scripts/findings/kernel_caches.py --peryton target/release/peryton $(if $(TRACES),--traces $(TRACES))
	python3 scripts/findings/defaults.py --peryton target/release/peryton $(if $(TRACES),--traces $(TRACES))
	@python3 scripts/python.py figures

# What needs programs of others, which are built first: the flash model beside MQSim (MQSIM=PROGRAM, TRACE=FILE), and xfstests over a drive
# (XFSTESTS=FOLDER), each as its script says.
mqsim: setup
	@$(CARGO) build --release --package peryton
	python3 scripts/findings/mqsim.py $(MQSIM) --peryton target/release/peryton $(if $(TRACE),--trace $(TRACE))
xfstests: test-kernel-build
	scripts/vm xfstests $(XFSTESTS)

# Draws the figures of docs/findings/ again from the rows that are beside the pages as CSV.
figures: setup
	@python3 scripts/python.py figures

# Runs every parser that reads bytes from outside on hostile bytes made from seeds; it needs no nightly compiler.
fuzz: setup
	@for target in $(FUZZ_TARGETS); do echo "$$target:"; \
		$(CARGO) run --quiet --profile torture --package peryton-fuzz --bin $$target -- $(FUZZ_CASES) || exit 1; \
	done

# The same with bytes that libFuzzer chooses to reach new code. It needs a nightly compiler and `cargo install cargo-fuzz`.
# It begins with a thousand of the inputs above and continues with the inputs that it kept (fuzz/corpus).
libfuzzer: setup
	@for target in $(FUZZ_TARGETS); do mkdir -p fuzz/corpus/$$target; \
		$(CARGO) run --quiet --profile torture --package peryton-fuzz --bin $$target -- 1000 0 fuzz/corpus/$$target && \
		cargo +nightly fuzz run --fuzz-dir fuzz --sanitizer none --no-trace-compares $$target -- \
			-runs=$(FUZZ_CASES) -max_len=1024 -timeout=20 -rss_limit_mb=1024 || exit 1; \
	done

clean:
	$(CARGO) clean
	rm -rf report
