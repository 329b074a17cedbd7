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

: "${STATE_DIR:=${TMPDIR:-/tmp}/qinglong-edge-log-prune}"
own_directory "$STATE_DIR"
# What the steps of one run hand on; no other run looks at it.
work="$STATE_DIR/run-${QL_RUN_ID:-by-hand}"
own_directory "$work"

if [ -n "${LOG_DIR:-}" ]; then
  logs=$LOG_DIR
else
  logs="$STATE_DIR/sample"
fi

size_of() {
  wc -c <"$1" | tr -d ' '
}

# Generations of a log: NAME.log.1, NAME.log.2.gz, … A number is never used again, so that nothing is ever renamed over
# something else, whatever step is killed in the middle. Prints "number file", oldest first.
generations_of() {
  for generation in "$1".*; do
    [ -f "$generation" ] || continue
    number=${generation#"$1".}
    number=${number%.gz}
    case $number in
      '' | *[!0-9]*) ;;
      *) printf '%s %s\n' "$number" "$generation" ;;
    esac
  done | sort -n
}

# All lines of all logs and their generations, counted file by file: a last line may have no end. A generation that is
# there both plain and compressed counts once.
count_all_lines() {
  for file in "$logs"/*.log "$logs"/*.log.*; do
    [ -f "$file" ] || continue
    case $file in
      *.new) ;;
      *.gz) if [ ! -f "${file%.gz}" ]; then gzip -dc "$file" | awk 'END { print NR }'; fi ;;
      *) awk 'END { print NR }' "$file" ;;
    esac
  done | awk '{ lines += $1 } END { print lines + 0 }'
}
