#!/bin/sh
# check.sh ALLOW EXPECTED: refuses a merged list that is broken or suspiciously small. Says everything that is wrong.
. ./scripts/common.sh
allow=$1
expected=$2
merged="$work/merged"
problems="$work/problems"

names=$(count_lines "$merged")
{
  awk '!/^[a-z0-9_][a-z0-9._-]*\.[a-z0-9_-]+$/ { print "line " NR " is no host name: " $0 }' "$merged"
  sort -u "$merged" | cmp -s - "$merged" || echo "the list is not sorted, or holds a name twice"
  [ "$names" -ge "${MIN_NAMES:-1}" ] || echo "only $names names; at least ${MIN_NAMES:-1} are expected"
  awk '
    FILENAME == ARGV[1] { has[$0] = 1; next }
    { sub(/[#\r].*/, "") }
    NF == 1 && FILENAME == ARGV[2] && !($1 in has) { print $1 " is missing" }
    NF == 1 && FILENAME == ARGV[3] && ($1 in has) { print $1 " is allowed, but blocked" }
  ' "$merged" "$expected" "$allow"
  # Half of the names gone at once is a broken source, not a cleaner internet.
  if [ -f "$OUT_DIR/names" ]; then
    before=$(count_lines "$OUT_DIR/names")
    [ $((names * 100)) -ge $((before * ${MIN_PERCENT:-50})) ] ||
      echo "$names names are less than ${MIN_PERCENT:-50} % of the $before published before"
  fi
} >"$problems"

if [ -s "$problems" ]; then
  sed 's/^/  /' "$problems"
  fail "$(count_lines "$problems") problems; the published list stays as it is"
fi
echo "checked: $names names, all well-formed, sorted and unique; expected names present, allowed ones absent"
