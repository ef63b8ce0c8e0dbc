# What the recording scripts share: a throw-away ext4 volume on a loop device, a memory limit for the program that is
# recorded, and the kernel's block:block_bio_queue events of that one device. Sourced, not run.
#
# Needs: root, Linux with loop devices, tracefs and a memory cgroup (v1 or v2), e2fsprogs, util-linux.

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || die "$tool is not in PATH: $NEEDS"
    done
}

TRACING=/sys/kernel/tracing
INSTANCE=
LOOP=
MOUNT=
CGROUP=

# volume_create IMAGE SIZE MOUNT: a sparse file, a loop device that bypasses the host's page cache, ext4 on it.
# The inode tables are written by mkfs, not lazily in the background, so that they are not in the recording.
volume_create() {
    [ ! -e "$1" ] || die "$1 exists: remove it or set WORK to another directory"
    truncate -s "$2" "$1"
    LOOP=$(losetup --find --show --direct-io=on "$1")
    # What most disks get; some kernels start a loop device with the (larger) value of the disk below it.
    echo 128 >"/sys/block/${LOOP#/dev/}/queue/read_ahead_kb"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$LOOP"
    mkdir -p "$3"
    mount -o noatime,discard "$LOOP" "$3"
    MOUNT=$3
}

# limit_create NAME BYTES: a memory cgroup; its page cache counts, so reads beyond it reach the device.
limit_create() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        CGROUP=/sys/fs/cgroup/$1
        mkdir "$CGROUP"
        echo "$2" >"$CGROUP/memory.max"
    else
        CGROUP=/sys/fs/cgroup/memory/$1
        mkdir "$CGROUP"
        echo "$2" >"$CGROUP/memory.limit_in_bytes"
    fi
}

# limited COMMAND...: run it under the limit.
limited() { (echo "$BASHPID" >"$CGROUP/cgroup.procs" && exec "$@"); }

# trace_start: events of $LOOP only, one clock for all processors, and a ring buffer that holds the whole recording,
# so that the recording itself writes nothing while it runs.
trace_start() {
    mountpoint -q "$TRACING" || mount -t tracefs nodev "$TRACING"
    INSTANCE=$TRACING/instances/peryton-$$
    mkdir "$INSTANCE"
    # As the kernel numbers devices: 12 bits of major, 20 bits of minor.
    local number=$((0x$(stat -c %t "$LOOP") << 20 | 0x$(stat -c %T "$LOOP")))
    echo mono >"$INSTANCE/trace_clock"
    echo 0 >"$INSTANCE/options/overwrite"
    echo "${RING_KB:-65536}" >"$INSTANCE/buffer_size_kb"
    echo "dev == $number" >"$INSTANCE/events/block/block_bio_queue/filter"
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 1 >"$INSTANCE/events/block/block_bio_queue/enable"
}

# trace_stop FILE: write the events as text, and fail if the kernel lost any.
trace_stop() {
    echo 0 >"$INSTANCE/tracing_on"
    local lost
    lost=$(awk '/^(overrun|commit overrun|dropped events):/ { n += $NF } END { print n + 0 }' "$INSTANCE"/per_cpu/cpu*/stats)
    cat "$INSTANCE/trace" >"$1"
    [ "$lost" = 0 ] || die "the kernel lost $lost events: repeat with a larger RING_KB"
    echo "recorded $(grep -c block_bio_queue: "$1") events into $1, 0 lost"
}

# summary FILE: what was recorded. A write with F in front of it is a flush and a write; FN or zero sectors, a flush.
summary() {
    awk '$0 ~ /block_bio_queue:/ {
            for (i = 1; i <= NF; i++) if ($i == "block_bio_queue:") break
            t = $(i - 1) + 0; op = $(i + 2); at = $(i + 3); n = $(i + 5)
            if (!first) first = t
            last = t
            if (op ~ /^F/) flushes++
            kind = op; sub(/^F/, "", kind); kind = substr(kind, 1, 1)
            if (n == 0) next
            if (kind == "R") { reads++; rb += n } else if (kind == "W") { writes++; wb += n } else if (kind == "D") { discards++; db += n }
            if (kind != "D") for (p = int(at / 8); p <= int((at + n - 1) / 8); p++) pages[p] = 1
        }
        END {
            for (p in pages) footprint++
            printf "span_s %.1f\nreads %d, %.1f MiB\nwrites %d, %.1f MiB\ndiscards %d, %.1f MiB\nflushes %d\nfootprint %.1f MiB\n", \
                last - first, reads, rb / 2048, writes, wb / 2048, discards, db / 2048, flushes, footprint / 256
        }' "$1"
}

# Undo what the functions above did, in whatever state they were left.
clean_up() {
    set +e
    if [ -n "$INSTANCE" ] && [ -d "$INSTANCE" ]; then
        echo 0 >"$INSTANCE/events/block/block_bio_queue/enable"
        rmdir "$INSTANCE"
    fi
    [ -z "$MOUNT" ] || umount "$MOUNT"
    [ -z "$LOOP" ] || losetup -d "$LOOP"
    [ -z "$CGROUP" ] || rmdir "$CGROUP"
    rm -rf "$WORK"
}
