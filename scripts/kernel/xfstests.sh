#!/usr/bin/env bash
# Runs xfstests over the drive, under the kernel of scripts/vm.
#
#   scripts/vm xfstests FOLDER [ARGUMENTS OF ./check]      (default: -g quick)
#
# FOLDER is a checkout of xfstests that was built on this machine (https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git; its README
# names the packages that it needs). FSTYP is ext4 or xfs (default: ext4); PLACEMENT is a placement of scripts/kernel/drive.py
# (default: tiering), or `none` for the slow disks alone, to compare with; PERYTON is the command (default: target/quick/peryton).
# Results are written to the current folder's `results`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${1:-} != --inside ]]; then
  folder=${1:-}
  [[ -x $folder/check ]] || { echo "vm: '$folder' is no checkout of xfstests (usage: scripts/vm xfstests FOLDER [ARGUMENTS OF ./check])" >&2; exit 2; }
  [[ -x $folder/ltp/fsstress ]] || { echo "vm: xfstests in '$folder' is not built: run make there" >&2; exit 2; }
  shift
  peryton=$(realpath "${PERYTON:-$here/../../target/quick/peryton}")
  [[ -x $peryton ]] || { echo "vm: no '$peryton': make test-kernel builds it, or set PERYTON" >&2; exit 2; }
  disks=$(mktemp -d /var/tmp/peryton-xfstests.XXXXXX)
  trap 'rm -rf "$disks"' EXIT
  arguments=()
  for size in 512M 4G 512M 4G 4G; do # Fast and slow of the test and the scratch device, and a log for dm-log-writes.
    truncate -s "$size" "$disks/$((${#arguments[@]} / 2)).img"
    arguments+=(--disk "$disks/$((${#arguments[@]} / 2)).img")
  done
  mkdir -p results
  status=0
  "$here/../vm" --mem 3072 "${arguments[@]}" -- bash "$here/xfstests.sh" --inside "$(realpath "$folder")" "$peryton" "${FSTYP:-ext4}" \
    "${PLACEMENT:-tiering}" "$PWD/results" "$@" || status=$?
  exit "$status"
fi

shift
folder=$1 peryton=$2 fstyp=$3 placement=$4 results=$5
shift 5
modprobe -a nbd loop configs dm-log-writes dm-flakey dm-snapshot dm-thin-pool "$fstyp" 2>/dev/null || true
mkdir -p /run/test /run/scratch /run/drive
serve() { # NAME FAST SLOW DEVICE
  python3 - "$@" "$peryton" "$placement" "$here" <<'PYTHON'
import sys
name, fast, slow, peryton, placement, here = *sys.argv[1:4], *sys.argv[5:8]
sys.path.insert(0, here)
import guest
from drive import Drive, design
drive = Drive(peryton, f"/run/drive/{name}", design(placement, 512, 4096), fast, slow)
drive.run("create")
drive.start()
guest.attach(drive, sys.argv[4])
PYTHON
}
modprobe nbd
if [[ $placement == none ]]; then
  test=$(readlink -f /dev/vdb) scratch=$(readlink -f /dev/vdd)
else
  test=/dev/nbd0 scratch=/dev/nbd1
  serve test /dev/vda /dev/vdb $test
  serve scratch /dev/vdc /dev/vdd $scratch
fi
"mkfs.$fstyp" -q $test
getent passwd fsgqa >/dev/null || useradd -m fsgqa
getent passwd fsgqa2 >/dev/null || useradd fsgqa2
getent passwd 123456-fsgqa >/dev/null || useradd --badname 123456-fsgqa 2>/dev/null || true
export FSTYP=$fstyp TEST_DEV=$test TEST_DIR=/run/test SCRATCH_DEV=$scratch SCRATCH_MNT=/run/scratch LOGWRITES_DEV=/dev/vde RESULT_BASE=$results
# No udev runs here: `udevadm settle`, which dmsetup and the tests call, would wait two minutes for it each time.
mkdir -p /run/bin && ln -sf /bin/true /run/bin/udevadm && export PATH=/run/bin:$PATH
cd "$folder"
[[ $# -gt 0 ]] || set -- -g quick
./check "$@"
