#!/usr/bin/env bash
# Installs the tools that the build needs, if it runs as root on Debian, through apt-get. Elsewhere it says what is missing
# and continues, so that the build can still be tried. With the argument `test` it also installs the NBD clients, the databases
# and the browser that the tests use; tests whose tools are missing are skipped.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=("a C compiler (Debian: build-essential)")
command -v make >/dev/null || missing+=("make")
if [[ ${#missing[@]} -gt 0 && $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq build-essential >/dev/null
  missing=()
fi
if [[ ${1:-} == test ]]; then
  packages=()
  command -v nbdinfo >/dev/null && command -v nbdfuse >/dev/null || packages+=(libnbd-bin)
  command -v nbdsh >/dev/null || packages+=(python3-libnbd)
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
  command -v qemu-io >/dev/null || packages+=(qemu-utils)
  command -v fio >/dev/null || packages+=(fio)
  command -v mkfs.ext4 >/dev/null || packages+=(e2fsprogs)
  command -v losetup >/dev/null || packages+=(mount)
  command -v socat >/dev/null || packages+=(socat)
  command -v sqlite3 >/dev/null || packages+=(sqlite3)
  command -v promtool >/dev/null || packages+=(prometheus)
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || packages+=(chromium)
  compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null || packages+=(postgresql)
  if [[ ${#packages[@]} -gt 0 ]]; then
    # The tests start a server of their own; Debian's package would start another.
    if [[ ${packages[*]} == *postgresql* && $(id -u) == 0 && ! -e /etc/postgresql-common/createcluster.conf ]]; then
      mkdir -p /etc/postgresql-common
      echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
    if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null ||
      ! (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null); then
      missing+=("for the interoperability tests, which are skipped (Debian: ${packages[*]})")
    fi
  fi
fi
if ! command -v cargo >/dev/null; then
  missing+=("Rust 1.88 or later (https://rustup.rs)")
fi
for what in "${missing[@]+"${missing[@]}"}"; do
  echo "setup: missing: $what" >&2
done
