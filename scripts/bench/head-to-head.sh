#!/usr/bin/env bash
# The same load on a slow disk alone, dm-cache, dm-writecache, bcache, and Peryton by NBD and as a block device: requests a second, latencies, and
# processor time for a request. Inside of scripts/vm; a fast disk of 512 MiB, 100 µs for a command, and a slow one of 4 GiB, 8 ms, are
# simulated by the kernel. fio draws other requests with another SEED (42):
#
#   scripts/vm --count --mem 6000 -- [env SEED=43] scripts/bench/head-to-head.sh PERYTON [SECONDS [NAME...]]
#
# NAME: alone, dm-cache, dm-writecache, bcache, nbd, ublk, ublk-16k, ublk-4k, tiering-ublk; all of them without. Needs fio, dmsetup, bcache-tools, nbd-client.
#
# "CPU" is all time of all processors that was not idle, of fio as well, for a request; "server" is the part of Peryton's process. With --count both are
# thousands of instructions. Without it (and with --disk FILE, a fast disk of this machine) the processor is emulated at whatever speed it gets: both
# are many times what they are on a real one, and only ratios mean something.
P=$(realpath "$1") S=${2:-20}
shift 2
# shellcheck source=scripts/bench/kernel-caches.sh
source "$(dirname "${BASH_SOURCE[0]}")/kernel-caches.sh"
names=("$@")
make_disks 8

ticks() { awk '/^cpu /{print $2+$3+$4+$7+$8}' /proc/stat; }
server_ticks() { [[ -n $1 ]] && awk '{print $14+$15}' "/proc/$1/stat" || echo 0; }

echo '| | reads/s | writes/s | read, mean ms | write, mean ms | read, p99 ms | write, p99 ms | CPU, µs a request | server, µs |'
echo '|---|--:|--:|--:|--:|--:|--:|--:|--:|'

# Name, device, process of the server or nothing.
run() {
  local busy server
  busy=$(ticks) server=$(server_ticks "$3")
  fio --name="$1" --filename="$2" --direct=1 --ioengine=libaio --iodepth=8 --rw=randrw --rwmixread=70 --bs=4k \
    --random_distribution=zipf:1.1 --size=2G --time_based --runtime="$S" --eta=never --randseed="${SEED:-42}" --output-format=json --output=/tmp/fio.json 2>/tmp/fio.err ||
    { echo "$1 failed:"; head -3 /tmp/fio.err; return 1; }
  busy=$(($(ticks) - busy)) server=$(($(server_ticks "$3") - server))
  python3 - "$1" $busy $server "$(getconf CLK_TCK)" <<'PY'
import json, sys
text = open("/tmp/fio.json").read()
job = json.loads(text[text.index("{"):])["jobs"][0]
name, busy, server, hz = sys.argv[1], *map(int, sys.argv[2:])
sides = [job["read"], job["write"]]
total = sum(side["total_ios"] for side in sides)
cells = [f"{side['iops']:.0f}" for side in sides]
cells += [f"{side['lat_ns']['mean'] / 1e6:.2f}" for side in sides]
cells += [f"{side['clat_ns']['percentile']['99.000000'] / 1e6:.1f}" for side in sides]
cells += [f"{part / hz / total * 1e6:.0f}" if part else "" for part in (busy, server)]
print("|", " | ".join([name, *cells]), "|", flush=True)
PY
}

if wanted alone; then run "disk alone" $slow; fi
measure() { run "$1" "$2"; }
kernel_caches

mkdir -p /run/p && cd /run/p || exit 1
# Name, mode, what is given to `serve`, extent.
peryton() {
  wanted "$1" || return 0
  local more=''
  [[ $2 == tiering ]] && more='promotion = { threshold = 1, window = "60s" }'
  new_volume "$1" "$2" "$4" "$more"
  # shellcheck disable=SC2086
  $P serve "$1".toml $3 >log 2>&1 &
  local pid=$! device=/dev/nbd0
  for _ in $(seq 200); do [[ -S $1.nbd ]] && grep -q . log && break; sleep 0.1; done
  if [[ $3 == *ublk* ]]; then
    for _ in $(seq 200); do device=$(compgen -G '/dev/ublkb*') && break; sleep 0.1; done
    [[ -b $device ]] || { echo "$1: no block device:"; cat log; }
  else
    nbd-client -unix "$PWD/$1.nbd" /dev/nbd0 -C 2 >c 2>&1 || cat c
  fi
  run "Peryton, $1" "$device" $pid
  [[ $3 == *ublk* ]] || nbd-client -d /dev/nbd0 >/dev/null 2>&1
  kill $pid
  wait $pid 2>/dev/null
}
peryton nbd caching '' 64KiB
peryton ublk caching --ublk 64KiB
peryton ublk-16k caching --ublk 16KiB
peryton ublk-4k caching --ublk 4KiB
peryton tiering-ublk tiering --ublk 64KiB
