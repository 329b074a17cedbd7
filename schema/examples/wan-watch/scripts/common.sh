# Sourced by every script of this package. POSIX sh; dash and BusyBox ash.
set -eu
umask 077
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

: "${STATE_DIR:=${TMPDIR:-/tmp}/qinglong-edge-wan-watch}"
own_directory "$STATE_DIR"
# What the steps of one run hand on; no other run looks at it.
work="$STATE_DIR/run-${QL_RUN_ID:-by-hand}"
own_directory "$work"
