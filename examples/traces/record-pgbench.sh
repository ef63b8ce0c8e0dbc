#!/usr/bin/env bash
# Record the block requests of a PostgreSQL server on ext4: an order-processing mix with a hot set that moves, quiet
# phases, a backup and a vacuum. See README.md beside this file.
#
#   sudo ./record-pgbench.sh OUT.ftrace
#
# It makes a volume in a file on a loop device, a database cluster of its own on a unix socket, and removes both.
set -euo pipefail

SCALE=${SCALE:-110}             # pgbench scale: about 15 MiB and 100,000 accounts each
VOLUME=${VOLUME:-4G}            # size of the volume
MEMORY=${MEMORY:-128M}          # for PostgreSQL and its share of the page cache
BUFFERS=${BUFFERS:-32MB}        # shared_buffers, part of MEMORY
RATE=${RATE:-130}               # transactions a second when it is busy, Poisson arrivals
CLIENTS=${CLIENTS:-8}
SKEW=${SKEW:-1.3}               # Zipf exponent over branches
ROW_SKEW=${ROW_SKEW:-1.1}       # Zipf exponent over the accounts of a branch
SHARE=${SHARE:-1}               # shortens all phases (0.1: a tenth) for a trial run
SEED=${SEED:-1}
WORK=${WORK:-/var/tmp/peryton-record-pgbench}
PG_USER=${PG_USER:-postgres}
NEEDS="root; PostgreSQL 14 or later with its server programs (Debian: apt install postgresql; else set PG_BIN); 6 GB in WORK"

. "$(dirname "$0")/record-lib.sh"

[ $# = 1 ] || die "usage: $(basename "$0") OUT.ftrace ($NEEDS)"
[ "$(id -u)" = 0 ] || die "must run as root: $NEEDS"
OUT=$(realpath "$1")
PG_BIN=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}
PATH=$PG_BIN:$PATH
need initdb pg_ctl pgbench pg_dump psql losetup mkfs.ext4 runuser awk

[ ! -e "$WORK" ] || die "$WORK exists: remove it or set WORK to another directory"
DATA=
finish() {
    [ -z "$DATA" ] || as_pg pg_ctl -D "$DATA" -m immediate -w stop >/dev/null 2>&1 || true
    clean_up
}
trap finish EXIT
mkdir -p "$WORK"
chmod 755 "$WORK"

as_pg() { (cd / && exec runuser -u "$PG_USER" -- env PATH="$PATH" PGHOST="$WORK/socket" PGDATABASE=postgres "$@"); }
phase() { echo "$(date +%T) $*"; }
seconds() { awk -v s="$1" -v share="$SHARE" 'BEGIN { s = int(s * share); print s < 1 ? 1 : s }'; }

volume_create "$WORK/volume.img" "$VOLUME" "$WORK/mnt"
mkdir "$WORK/socket" "$WORK/sql"
install -d -o "$PG_USER" -m 700 "$WORK/mnt/pg" "$WORK/mnt/backup"
chown "$PG_USER" "$WORK/socket"

# --- The clients' transactions -----------------------------------------------------------------------------------
# A Zipf-popular branch, then a Zipf-popular account in it: the popular rows of a branch lie apart, the rows of a
# popular branch together. `day` moves the popularity to other branches.
pick='\set branches :scale
\set branch permute(random_zipfian(1, :branches, '"$SKEW"'), :branches, :day) - 1
\set aid :branch * 100000 + permute(random_zipfian(1, 100000, '"$ROW_SKEW"'), 100000, :branch)'
{
    echo "$pick"
    cat <<'SQL'
\set bid :branch + 1
\set tid :branch * 10 + random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
SQL
} >"$WORK/sql/transfer.sql"
{
    echo "$pick"
    echo 'SELECT abalance FROM pgbench_accounts WHERE aid = :aid;'
} >"$WORK/sql/lookup.sql"
{
    echo "$pick"
    echo 'SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 2000;'
} >"$WORK/sql/statement.sql"

# busy SECONDS RATE DAY: 50 % transfers (TPC-B's transaction), 45 % look-ups, 5 % statements of 2,000 accounts.
busy() {
    as_pg pgbench -n -M prepared -s "$SCALE" -c "$CLIENTS" -j 2 -T "$(seconds "$1")" -R "$2" -D "day=$3" --random-seed="$SEED" \
        -f "$WORK/sql/transfer.sql@50" -f "$WORK/sql/lookup.sql@45" -f "$WORK/sql/statement.sql@5" 2> >(grep -v "setting random seed" >&2) |
        grep -E '^(number of transactions actually|latency average|tps)' | sed 's/^/         /'
}

# --- The server and its data, not recorded -----------------------------------------------------------------------
phase "loading scale $SCALE"
as_pg initdb -D "$WORK/mnt/pg/data" -A trust --no-sync --locale=C >/dev/null
DATA=$WORK/mnt/pg/data
cat >>"$DATA/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$WORK/socket'
shared_buffers = $BUFFERS
checkpoint_timeout = 60s
max_wal_size = 512MB
min_wal_size = 256MB
wal_compression = on
autovacuum_naptime = 30s
CONF
as_pg pg_ctl -D "$DATA" -l "$WORK/mnt/pg/log" -w start >/dev/null
as_pg pgbench -q -i -s "$SCALE" >"$WORK/init.log" 2>&1 || die "pgbench -i failed: $(tail -1 "$WORK/init.log")"
as_pg psql -qc CHECKPOINT
as_pg pg_ctl -D "$DATA" -m fast -w stop >/dev/null

# --- Recorded ----------------------------------------------------------------------------------------------------
limit_create "peryton-record-$$" "$MEMORY"
trace_start
phase "start"
limited runuser -u "$PG_USER" -- "$PG_BIN/pg_ctl" -D "$DATA" -l "$WORK/mnt/pg/log" -w start >/dev/null
phase "morning";        busy 240 "$RATE" 1
phase "quiet";          sleep "$(seconds 25)"
phase "noon";           busy 180 "$RATE" 1
phase "backup under light load"
busy 45 $((RATE / 4)) 1 & light=$!
limited runuser -u "$PG_USER" -- "$PG_BIN/pg_dump" -h "$WORK/socket" -Fc -Z 1 -f "$WORK/mnt/backup/first.dump" postgres
sync -f "$WORK/mnt/backup/first.dump"
wait "$light"
phase "quiet";          sleep "$(seconds 30)"
phase "afternoon, other branches are popular"
busy 240 "$RATE" 2
phase "vacuum, the backup is removed"
as_pg psql -qc 'VACUUM pgbench_accounts'
rm "$WORK/mnt/backup/first.dump"
phase "quiet";          sleep "$(seconds 20)"
phase "evening, light"; busy 60 $((RATE / 3)) 2
as_pg pg_ctl -D "$DATA" -m fast -w stop >/dev/null
sync -f "$WORK/mnt"
trace_stop "$OUT"
phase "end"

echo "kernel $(uname -r), $("$PG_BIN/postgres" --version), $(mkfs.ext4 -V 2>&1 | head -1)"
tune2fs -l "$LOOP" | grep -E '^(Filesystem features|Block size|Block count|Journal|Inode size)' || true
grep " $MOUNT " /proc/mounts | cut -d' ' -f3,4
summary "$OUT"
