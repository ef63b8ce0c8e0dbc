#!/usr/bin/env bash
# Record the block requests of SQLite on ext4: small durable transactions with a rollback journal. A small trace for
# tests. See README.md beside this file.
#
#   sudo ./record-sqlite.sh OUT.ftrace
set -euo pipefail

ROWS=${ROWS:-60000}             # rows before the recording, about 450 bytes each
TRANSACTIONS=${TRANSACTIONS:-700}
PAUSE_EVERY=${PAUSE_EVERY:-100} # transactions, then one second of quiet
VOLUME=${VOLUME:-600M}          # mkfs.ext4 makes blocks of 1 KiB below 512M
SEED=${SEED:-1}
WORK=${WORK:-/var/tmp/peryton-record-sqlite}
NEEDS="root; the sqlite3 shell (Debian: apt install sqlite3); 1 GB in WORK"

. "$(dirname "$0")/record-lib.sh"

[ $# = 1 ] || die "usage: $(basename "$0") OUT.ftrace ($NEEDS)"
[ "$(id -u)" = 0 ] || die "must run as root: $NEEDS"
OUT=$(realpath "$1")
need sqlite3 losetup mkfs.ext4 awk

[ ! -e "$WORK" ] || die "$WORK exists: remove it or set WORK to another directory"
trap clean_up EXIT
mkdir -p "$WORK"
volume_create "$WORK/volume.img" "$VOLUME" "$WORK/mnt"
DB=$WORK/mnt/orders.db

# --- Its data, not recorded --------------------------------------------------------------------------------------
sqlite3 "$DB" >/dev/null <<SQL
PRAGMA journal_mode = DELETE;
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, state TEXT, note TEXT);
CREATE INDEX orders_by_customer ON orders (customer);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $ROWS)
INSERT INTO orders SELECT i, (i * 7919) % 5000, 'new', hex(zeroblob(200)) FROM n;
SQL

# Nine of ten orders that change are among the last twentieth; one of ten transactions looks a customer up.
awk -v rows="$ROWS" -v transactions="$TRANSACTIONS" -v pause="$PAUSE_EVERY" -v seed="$SEED" '
    function some_order() { return int(rand() < 0.9 ? rows * (0.95 + 0.05 * rand()) : rows * rand()) + 1 }
    BEGIN {
        srand(seed)
        print "PRAGMA synchronous = FULL; PRAGMA cache_size = -512;"
        for (i = 1; i <= transactions; i++) {
            print "BEGIN;"
            printf "UPDATE orders SET state = '\''paid'\'' WHERE id = %d;\n", some_order()
            printf "INSERT INTO orders (customer, state, note) VALUES (%d, '\''new'\'', hex(zeroblob(%d)));\n", rand() * 5000, 50 + rand() * 300
            if (i % 10 == 0) printf "SELECT count(*), max(id) FROM orders WHERE customer = %d;\n", rand() * 5000
            print "COMMIT;"
            if (i % pause == 0) print ".shell sleep 1"
        }
        print "SELECT count(*), sum(length(note)) FROM orders;"
        print "DELETE FROM orders WHERE id < " int(rows / 10) ";"
        print "VACUUM;"
    }' >"$WORK/transactions.sql"

# --- Recorded ----------------------------------------------------------------------------------------------------
trace_start
sqlite3 -bail "$DB" <"$WORK/transactions.sql" >/dev/null
sync -f "$WORK/mnt"
trace_stop "$OUT"

echo "kernel $(uname -r), SQLite $(sqlite3 --version | cut -d' ' -f1), $(mkfs.ext4 -V 2>&1 | head -1)"
grep " $MOUNT " /proc/mounts | cut -d' ' -f3,4
summary "$OUT"
