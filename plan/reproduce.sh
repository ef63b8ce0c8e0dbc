#!/bin/sh
# Computes the figures of plan.json again, to the digit.
set -e
cd "$(dirname "$0")"
peryton sim caching-back_samsung-870-evo-1tb_wd-ultrastar-dc-hc560-20tb.toml --trace /work/main/examples/traces/pgbench-ext4.parquet --warm-up-requests 157578 --load-share 0.0483847168 --json -
peryton sim partitioned_samsung-870-evo-1tb_wd-ultrastar-dc-hc560-20tb.toml --trace /work/main/examples/traces/pgbench-ext4.parquet --warm-up-requests 157578 --load-share 0.0483847168 --json -
peryton sim caching-back_samsung-870-evo-1tbx2_wd-ultrastar-dc-hc560-20tb.toml --trace /work/main/examples/traces/pgbench-ext4.parquet --warm-up-requests 157578 --load-share 0.0483847168 --json -
peryton sim partitioned_samsung-870-evo-1tbx2_wd-ultrastar-dc-hc560-20tb.toml --trace /work/main/examples/traces/pgbench-ext4.parquet --warm-up-requests 157578 --load-share 0.0483847168 --json -
