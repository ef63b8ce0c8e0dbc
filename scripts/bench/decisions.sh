#!/usr/bin/env bash
# What caches leave to the slow disk for the very same requests (fixed seed, fixed count): cold, warm, and until all of it is clean.
# Counts do not depend on how slow the emulated processor is. Inside of scripts/vm, with a fast disk of 512 MiB; the
# slow one of 4 GiB is simulated by the kernel:
#
#   truncate -s 512M fast.img
#   scripts/vm --disk fast.img -- scripts/bench/decisions.sh PERYTON [REQUESTS [NAME...]]
#
# NAME: dm-cache, dm-writecache, bcache, or a design below; all of them without. Needs fio, dmsetup, bcache-tools, nbd-client.
P=$(realpath "$1") N=${2:-30000}
shift 2
# shellcheck source=scripts/bench/kernel-caches.sh
source "$(dirname "${BASH_SOURCE[0]}")/kernel-caches.sh"
names=("$@")
make_disks 2

slow_stat() { awk '{print $1,$3,$5,$7}' /sys/block/slow/stat; }

# What the slow disk did between two states: name, what, host requests, the states, seconds.
row() {
  awk -v name="$1" -v what="$2" -v n="$3" -v a="$4" -v b="$5" -v t="$6" 'BEGIN {
    split(a, x); split(b, y)
    printf "%22s %-11s host %6d  slow reads/1000 %4.0f  writes/1000 %4.0f  KiB read %5.2f written %5.2f a request  %6.1f s\n",
      name, what, n, 1000*(y[1]-x[1])/n, 1000*(y[3]-x[3])/n, (y[2]-x[2])/2/n, (y[4]-x[4])/2/n, t }'
}

# The requests, cold and then warm, and then until the device is clean: name, device, command that cleans it.
run() {
  local name=$1 device=$2 first before after began seed
  first=$(slow_stat)
  for pass in cold warm; do
    before=$(slow_stat) began=$SECONDS seed=42
    [[ $pass == warm ]] && seed=43
    fio --name="$name" --filename="$device" --direct=1 --ioengine=libaio --iodepth=8 --rw=randrw --rwmixread=70 --bs=4k \
      --random_distribution=zipf:1.1 --size=2G --number_ios="$N" --randseed=$seed --allrandrepeat=1 --minimal >/tmp/fio 2>&1 || cat /tmp/fio
    row "$name" $pass "$N" "$before" "$(slow_stat)" $((SECONDS - began))
  done
  before=$(slow_stat) began=$SECONDS
  eval "$3"
  after=$(slow_stat)
  row "$name" cleaning $((2 * N)) "$before" "$after" $((SECONDS - began))
  row "$name" "all of it" $((2 * N)) "$first" "$after" 0
}

measure() { run "$@"; }
kernel_caches

mkdir -p /run/p && cd /run/p || exit 1
# Name, mode, extent, promotion threshold or nothing, further keys.
design() {
  wanted "$1" || return 0
  local threshold=''
  [[ -n $4 ]] && threshold="promotion = { threshold = $4, window = \"60s\" }"
  new_volume "$1" "$2" "$3" "$threshold"$'\n'"$5"
  $P serve "$1".toml >log 2>&1 &
  local pid=$!
  for _ in $(seq 100); do [[ -S $1.nbd ]] && break; sleep 0.1; done
  nbd-client -unix "$PWD/$1.nbd" /dev/nbd0 -C 2 >c 2>&1 || cat c
  local clean=true
  clean="$P writeback $1.toml --wait >/dev/null"
  run "$1" /dev/nbd0 "$clean"
  nbd-client -d /dev/nbd0 >/dev/null 2>&1
  kill $pid
  wait $pid 2>/dev/null
}
design caching-64k caching 64KiB ''
design caching-64k-lirs caching 64KiB '' 'replacement = "lirs"'
design caching-64k-pt0 caching 64KiB 0
design caching-16k caching 16KiB ''
design caching-4k caching 4KiB ''
design caching-4k-pt0 caching 4KiB 0 'replacement = "lru"'
design tiering-64k-pt1 tiering 64KiB 1
