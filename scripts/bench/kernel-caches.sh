# shellcheck shell=bash
# What decisions.sh and head-to-head.sh have in common: the devices, the kernel's caches before the slow one, and Peryton's designs for the same
# devices. Sourced by them inside of scripts/vm, with a fast disk of 512 MiB.
#
# The slow disk is one of the kernel's null_blk: 4 GiB in memory, of which what is written takes room, that answer each command after some
# milliseconds by a timer, any number of them at a time. It has a volatile cache, so that flushes reach it and take as long. (dm-delay looks in
# a loop for what is due while a command waits, if the delay is below 50 ms, and takes a processor for that; and io_uring has to hand its
# commands to threads.)
export DM_DISABLE_UDEV=1
modprobe -a dm-cache dm-cache-smq dm-cache-cleaner dm-writecache bcache nbd ublk_drv 2>/dev/null
# No disk of its own.
modprobe null_blk nr_devices=0
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
ssd=/dev/vda slow=/dev/slow
# The names that were asked for; none: all.
names=()

wanted() { [[ ${#names[@]} -eq 0 || " ${names[*]} " == *" $1 "* ]]; }
# A cache whose tool is not there is left out: without its device fio would measure a file of that name.
has() { command -v "$1" >/dev/null || { echo "$1 is not there: apt-get install $2"; false; }; }
zero() { dd if=/dev/zero of=$ssd bs=1M count=8 oflag=direct conv=fsync 2>/dev/null; }

# Makes a disk in memory: name, MiB, microseconds that a command takes, MiB of its volatile cache.
memory_disk() {
  local is=/sys/kernel/config/nullb/$1 key
  mkdir "$is"
  for key in size="$2" memory_backed=1 discard=1 cache_size="$4" irqmode=2 completion_nsec=$(($3 * 1000)) hw_queue_depth=128; do
    echo "${key#*=}" >"$is/${key%%=*}"
  done
  echo 1 >"$is/power"
  [[ -b /dev/$1 ]] || { echo "no null_blk: its kernel does not name disks by their configuration"; exit 1; }
}

# Makes the disks: milliseconds that a command of the slow one takes. The fast one is what --disk gave, or in memory as well: 100 µs, no
# volatile cache.
make_disks() {
  memory_disk slow 4096 $(($1 * 1000)) 16
  [[ -b $ssd ]] || { ssd=/dev/fast && memory_disk fast 512 100 0; }
  n=$((4096 * 2048)) s=$(blockdev --getsz $ssd)
}

# Sets up each of the kernel's caches that is wanted, and calls `measure NAME DEVICE CLEANER`; the cleaner is a function that writes home all
# that is dirty.
kernel_caches() {
  local m=16384 key
  if wanted dm-cache; then
    zero
    dmsetup create meta --table "0 $m linear $ssd 0"
    dmsetup create fast --table "0 $((s - m)) linear $ssd $m"
    dmsetup create cached --table "0 $n cache /dev/mapper/meta /dev/mapper/fast $slow 128 1 writeback smq 0"
    clean_dm_cache() {
      dmsetup suspend cached
      dmsetup reload cached --table "0 $n cache /dev/mapper/meta /dev/mapper/fast $slow 128 1 writeback cleaner 0"
      dmsetup resume cached
      for _ in $(seq 600); do [[ $(dmsetup status cached | awk '{print $14}') == 0 ]] && break; sleep 0.5; done
    }
    measure dm-cache /dev/mapper/cached clean_dm_cache
    dmsetup remove cached
    dmsetup remove meta fast
  fi
  if wanted dm-writecache; then
    zero
    dmsetup create wcache --table "0 $n writecache s $slow $ssd 4096 0"
    clean_dm_writecache() { dmsetup message wcache 0 flush; }
    measure dm-writecache /dev/mapper/wcache clean_dm_writecache
    timeout 120 dmsetup remove wcache
  fi
  if wanted bcache && has make-bcache bcache-tools; then
    zero
    wipefs -aq $ssd
    make-bcache --writeback --wipe-bcache -C $ssd -B $slow >/tmp/mb 2>&1 || tail -1 /tmp/mb
    echo $ssd >/sys/fs/bcache/register 2>/dev/null
    echo $slow >/sys/fs/bcache/register 2>/dev/null
    sleep 2
    echo 0 >/sys/block/bcache0/bcache/sequential_cutoff
    for key in congested_read_threshold_us congested_write_threshold_us; do echo 0 | tee /sys/fs/bcache/*/$key >/dev/null; done
    clean_bcache() {
      # The cache is detached once it is clean.
      echo 1 >/sys/block/bcache0/bcache/detach
      for _ in $(seq 1200); do [[ $(</sys/block/bcache0/bcache/state) == "no cache" ]] && break; sleep 0.5; done
    }
    measure bcache /dev/bcache0 clean_bcache
    echo 1 >/sys/block/bcache0/bcache/stop
    echo 1 | tee /sys/fs/bcache/*/stop >/dev/null 2>&1
    sleep 3
  fi
}

# A new volume: name, mode, extent, further lines of the placement. Uses $P, the program.
new_volume() {
  zero
  dd if=/dev/zero of=$slow bs=1M count=4 oflag=direct 2>/dev/null
  rm -f "$1".*
  {
    printf '[devices.fast]\nprofile = "fixed"\npath = "%s"\nsize = "440MiB"\n' $ssd
    printf '[devices.slow]\nprofile = "fixed"\npath = "%s"\nsize = "3500MiB"\n' $slow
    printf '[placement]\nmode = "%s"\nfast = "fast"\nslow = "slow"\nextent = "%s"\n' "$2" "$3"
    [[ $2 == caching ]] && echo 'write = "back"'
    echo "$4"
  } >"$1".toml
  $P format "$1".toml --force >fmt 2>&1 || cat fmt
}
