# Sourced by every script of this package. POSIX sh; dash and BusyBox ash.
set -eu
# The published list is for others to read, such as dnsmasq.
umask 022
LC_ALL=C
export LC_ALL

fail() {
  echo "error: $*" >&2
  exit 1
}

# A directory of ours, not one that somebody put under this name in a shared /tmp.
own_directory() {
  [ ! -L "$1" ] || fail "$1 is a link"
  mkdir -p "$1" || fail "$1 cannot be made"
  [ -O "$1" ] || fail "$1 belongs to somebody else"
}

count_lines() {
  awk 'END { print NR }' "$1"
}

: "${OUT_DIR:=${TMPDIR:-/tmp}/qinglong-edge-blocklist}"
own_directory "$OUT_DIR"
# What the steps of one run hand on; no other run looks at it.
work="$OUT_DIR/run-${QL_RUN_ID:-by-hand}"
own_directory "$work"
