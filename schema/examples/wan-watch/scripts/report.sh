#!/bin/sh
# Keeps the decision as the state, and appends a line to the log when it is another than before.
. ./scripts/common.sh
log="$STATE_DIR/changes.log"

read -r state counts <"$work/decision" || fail 'there is no decision'
before=none
if [ -f "$STATE_DIR/state" ]; then
  read -r before rest <"$STATE_DIR/state"
fi

if [ "$state" = "$before" ]; then
  echo "still $state ($counts)"
else
  echo "$(date '+%Y-%m-%dT%H:%M:%S%z') $before -> $state ($counts)" >>"$log"
  tail -n 1 "$log"
  # The log stays small: only its last lines are kept.
  if [ "$(awk 'END { print NR }' "$log")" -gt "${LOG_LINES:-200}" ]; then
    tail -n "${LOG_LINES:-200}" "$log" >"$work/changes.log"
    mv -f "$work/changes.log" "$log"
  fi
  echo "$state $counts" >"$work/state"
  mv -f "$work/state" "$STATE_DIR/state"
fi

# This run is done; what runs that failed have left is looked at for a day.
rm -rf "$work"
find "$STATE_DIR" -type d -name 'run-*' -mtime +0 -prune -exec rm -rf {} \;

for failing in ${FAIL_WHEN:-}; do
  [ "$state" != "$failing" ] || fail "the line is $state"
done
